--liquibase formatted sql
--changeset test:1
CREATE TABLE app_liquibase (id int);
