"""`evalcell serve`: HTTP and the page, thin doors to the service, and who may enter."""
