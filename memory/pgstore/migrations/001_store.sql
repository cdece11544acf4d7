-- Objects, logs and terms. Every name and key is bytea: no collation, any byte.
-- A name or key of more than 768 bytes is kept as its first 768 and a SHA-256 of
-- the whole, which an index can hold; the whole stands beside it.

CREATE TABLE {{schema}}.tenant (
    tenant bytea PRIMARY KEY,
    whole bytea
);

CREATE TABLE {{schema}}.object (
    tenant bytea NOT NULL,
    key bytea NOT NULL,
    whole bytea,
    revision bigint NOT NULL CHECK (revision > 0),
    data bytea,
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 85);

CREATE TABLE {{schema}}.log (
    tenant bytea NOT NULL,
    key bytea NOT NULL,
    whole bytea,
    revision bigint NOT NULL CHECK (revision > 0),
    data bytea NOT NULL,
    PRIMARY KEY (tenant, key, revision)
);

CREATE TABLE {{schema}}.term (
    tenant bytea NOT NULL,
    name bytea NOT NULL,
    sort bytea NOT NULL CHECK (octet_length(sort) = 8),
    key bytea NOT NULL,
    whole bytea,
    PRIMARY KEY (tenant, name, sort, key)
);
CREATE UNIQUE INDEX carrier ON {{schema}}.term (tenant, key, name);

-- ANALYZE would copy the most common values into the statistics of the database,
-- where no erasure finds them.
ALTER TABLE {{schema}}.tenant ALTER tenant SET STATISTICS 0, ALTER whole SET STATISTICS 0;
ALTER TABLE {{schema}}.object ALTER tenant SET STATISTICS 0, ALTER key SET STATISTICS 0, ALTER whole SET STATISTICS 0, ALTER data SET STATISTICS 0;
ALTER TABLE {{schema}}.log ALTER tenant SET STATISTICS 0, ALTER key SET STATISTICS 0, ALTER whole SET STATISTICS 0, ALTER data SET STATISTICS 0;
ALTER TABLE {{schema}}.term ALTER tenant SET STATISTICS 0, ALTER name SET STATISTICS 0, ALTER sort SET STATISTICS 0, ALTER key SET STATISTICS 0, ALTER whole SET STATISTICS 0;

-- The second wall between tenants. hearsay.tenant is set for one transaction; where
-- it was set before, PostgreSQL leaves '' behind, which is no tenant either. The
-- tenant of no name is '\x'.
ALTER TABLE {{schema}}.object ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE {{schema}}.log ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE {{schema}}.term ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON {{schema}}.object USING (tenant = nullif(current_setting('hearsay.tenant', true), '')::bytea);
CREATE POLICY tenant ON {{schema}}.log USING (tenant = nullif(current_setting('hearsay.tenant', true), '')::bytea);
CREATE POLICY tenant ON {{schema}}.term USING (tenant = nullif(current_setting('hearsay.tenant', true), '')::bytea);

-- apply writes a batch and returns 0, or writes nothing and returns the number of
-- the first stale claim, checks first. The locks come in the order in which
-- everybody takes them; each statement sees what was committed before it began, so
-- what is read after the locks stays true until the end of the transaction.
-- (LATERAL with LIMIT 1, and the loop, are one look into the index for each key: of
-- a plain join the planner makes, for a table that was small, a read of all that
-- the tenant has.)
CREATE FUNCTION {{schema}}.apply(
    of_tenant bytea, tenant_whole bytea,
    lock_id bigint[], lock_exclusive boolean[],
    check_key bytea[], check_revision bigint[],
    put_key bytea[], put_whole bytea[], put_from bigint[], put_data bytea[],
    entry_put bigint[], entry_key bytea[], entry_whole bytea[], entry_revision bigint[], entry_data bytea[],
    gone_key bytea[], gone_name bytea[],
    term_key bytea[], term_whole bytea[], term_name bytea[], term_sort bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    stale bigint;
    written bigint;
    gone record;
BEGIN
    PERFORM set_config('hearsay.tenant', of_tenant::text, true);
    PERFORM CASE WHEN l.exclusive THEN pg_advisory_xact_lock(l.id) ELSE pg_advisory_xact_lock_shared(l.id) END
    FROM unnest(lock_id, lock_exclusive) AS l (id, exclusive);

    SELECT min(s.n) INTO stale FROM (
        SELECT c.n FROM unnest(check_key || put_key, check_revision || put_from) WITH ORDINALITY AS c (key, revision, n)
        LEFT JOIN LATERAL (SELECT o.revision FROM {{schema}}.object o WHERE o.tenant = of_tenant AND o.key = c.key LIMIT 1) o ON true
        WHERE coalesce(o.revision, 0) <> c.revision
        UNION ALL -- an object that restore put back behind its log
        SELECT cardinality(check_key) + e.put FROM unnest(entry_put, entry_key, entry_revision) AS e (put, key, revision)
        CROSS JOIN LATERAL (SELECT FROM {{schema}}.log l WHERE l.tenant = of_tenant AND l.key = e.key AND l.revision = e.revision LIMIT 1) l
    ) s;
    IF stale IS NOT NULL THEN
        RETURN stale;
    END IF;
    IF cardinality(put_key) = 0 THEN
        RETURN 0;
    END IF;

    IF 0 = ANY (put_from) AND NOT EXISTS (SELECT FROM {{schema}}.tenant t WHERE t.tenant = of_tenant) THEN
        INSERT INTO {{schema}}.tenant VALUES (of_tenant, tenant_whole) ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO {{schema}}.object AS o (tenant, key, whole, revision, data)
    SELECT of_tenant, p.key, p.whole, p.prior + 1, p.data
    FROM unnest(put_key, put_whole, put_from, put_data) AS p (key, whole, prior, data)
    ON CONFLICT (tenant, key) DO UPDATE SET revision = excluded.revision, data = excluded.data
    WHERE o.revision = excluded.revision - 1;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> cardinality(put_key) THEN
        -- Somebody wrote without the locks. The batch is tried again, and finds out.
        RAISE EXCEPTION 'an object moved' USING ERRCODE = 'serialization_failure';
    END IF;
    IF entry_put IS NOT NULL THEN
        INSERT INTO {{schema}}.log (tenant, key, whole, revision, data)
        SELECT of_tenant, e.key, e.whole, e.revision, e.data
        FROM unnest(entry_key, entry_whole, entry_revision, entry_data) AS e (key, whole, revision, data);
    END IF;
    FOR gone IN SELECT g.key, g.name FROM unnest(gone_key, gone_name) AS g (key, name) LOOP
        DELETE FROM {{schema}}.term t WHERE t.tenant = of_tenant AND t.key = gone.key AND t.name = gone.name;
    END LOOP;
    IF term_key IS NOT NULL THEN
        INSERT INTO {{schema}}.term AS t (tenant, name, sort, key, whole)
        SELECT of_tenant, a.name, a.sort, a.key, a.whole
        FROM unnest(term_key, term_whole, term_name, term_sort) AS a (key, whole, name, sort)
        ON CONFLICT (tenant, key, name) DO UPDATE SET sort = excluded.sort WHERE t.sort <> excluded.sort;
    END IF;
    RETURN 0;
END $$;

-- restore sets objects outright; revision 0 removes one. The lock keeps every
-- other write of the tenant out.
CREATE FUNCTION {{schema}}.restore(
    of_tenant bytea, tenant_whole bytea, lock_id bigint,
    object_key bytea[], object_whole bytea[], object_revision bigint[], object_data bytea[],
    term_key bytea[], term_whole bytea[], term_name bytea[], term_sort bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('hearsay.tenant', of_tenant::text, true), pg_advisory_xact_lock(lock_id);
    INSERT INTO {{schema}}.tenant VALUES (of_tenant, tenant_whole) ON CONFLICT DO NOTHING;
    DELETE FROM {{schema}}.term t WHERE t.tenant = of_tenant AND t.key = ANY (object_key);
    DELETE FROM {{schema}}.object o WHERE o.tenant = of_tenant AND o.key = ANY (object_key);
    INSERT INTO {{schema}}.object (tenant, key, whole, revision, data)
    SELECT of_tenant, r.key, r.whole, r.revision, r.data
    FROM unnest(object_key, object_whole, object_revision, object_data) AS r (key, whole, revision, data)
    WHERE r.revision > 0;
    INSERT INTO {{schema}}.term (tenant, name, sort, key, whole)
    SELECT of_tenant, a.name, a.sort, a.key, a.whole
    FROM unnest(term_key, term_whole, term_name, term_sort) AS a (key, whole, name, sort);
END $$;

-- rewrite replaces log entries, or removes those without data. It returns false,
-- with nothing written, if one of them is not there.
CREATE FUNCTION {{schema}}.rewrite(of_tenant bytea, lock_id bigint, of_key bytea, entry_revision bigint[], entry_data bytea[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    present bigint;
    e record;
BEGIN
    PERFORM set_config('hearsay.tenant', of_tenant::text, true), pg_advisory_xact_lock(lock_id);
    SELECT count(*) INTO present FROM {{schema}}.log l
    WHERE l.tenant = of_tenant AND l.key = of_key AND l.revision = ANY (entry_revision);
    IF present <> cardinality(entry_revision) THEN
        RETURN false;
    END IF;
    FOR e IN SELECT u.revision, u.data FROM unnest(entry_revision, entry_data) AS u (revision, data) LOOP
        IF e.data IS NULL THEN
            DELETE FROM {{schema}}.log l WHERE l.tenant = of_tenant AND l.key = of_key AND l.revision = e.revision;
        ELSE
            UPDATE {{schema}}.log l SET data = e.data WHERE l.tenant = of_tenant AND l.key = of_key AND l.revision = e.revision;
        END IF;
    END LOOP;
    RETURN true;
END $$;

-- tenants lists the tenants that have an object or a log entry. The names stand in
-- a table without row-level security; what a tenant has is looked up as that
-- tenant, one by one. The tenant of no name comes after no name and is not listed.
CREATE FUNCTION {{schema}}.tenants(after bytea, most bigint) RETURNS SETOF bytea LANGUAGE plpgsql AS $$
DECLARE
    t record;
    listed bigint := 0;
BEGIN
    FOR t IN SELECT n.tenant, coalesce(n.whole, n.tenant) AS name FROM {{schema}}.tenant n
        WHERE coalesce(n.whole, n.tenant) > after ORDER BY 2
    LOOP
        EXIT WHEN listed >= most;
        PERFORM set_config('hearsay.tenant', t.tenant::text, true);
        IF EXISTS (SELECT FROM {{schema}}.object o WHERE o.tenant = t.tenant)
            OR EXISTS (SELECT FROM {{schema}}.log l WHERE l.tenant = t.tenant)
        THEN
            listed := listed + 1;
            RETURN NEXT t.name;
        END IF;
    END LOOP;
    PERFORM set_config('hearsay.tenant', '', true);
END $$;

-- forget removes the name of a tenant that has nothing. The lock keeps every write
-- of the tenant out, so that none comes between the look and the removal.
CREATE FUNCTION {{schema}}.forget(of_tenant bytea, lock_id bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('hearsay.tenant', of_tenant::text, true), pg_advisory_xact_lock(lock_id);
    IF NOT EXISTS (SELECT FROM {{schema}}.object o WHERE o.tenant = of_tenant)
        AND NOT EXISTS (SELECT FROM {{schema}}.log l WHERE l.tenant = of_tenant)
    THEN
        DELETE FROM {{schema}}.tenant t WHERE t.tenant = of_tenant;
    END IF;
END $$;
