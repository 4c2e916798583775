CREATE TABLE app_order (id int);
