CREATE TABLE app_script (id int);
