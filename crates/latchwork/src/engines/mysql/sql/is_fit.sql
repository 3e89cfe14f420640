-- Whether a table can be shared: it needs transactions, and a unique key on the name alone, without a prefix
-- length. Without that key two clients could insert a row for one name, and both would hold the lock.
SELECT EXISTS (SELECT 1 FROM information_schema.tables
        WHERE table_schema = {schema} AND table_name = '{name}' AND engine = 'InnoDB')
    AND EXISTS (SELECT index_name FROM information_schema.statistics
        WHERE table_schema = {schema} AND table_name = '{name}' AND non_unique = 0
        GROUP BY index_name
        HAVING count(*) = 1 AND max(lower(column_name)) = 'unique_mutex' AND max(sub_part) IS NULL)
