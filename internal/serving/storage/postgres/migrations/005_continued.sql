-- The bytes of a session's text that continue a character of UTF-8, up to the end of a record's text;
-- null is 0.
alter table records add continued bigint;
