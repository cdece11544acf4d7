-- Objects, logs and terms. Every name and key is bytea: no collation, any byte.
-- A name or key of more than 768 bytes is kept as its first 768 and a SHA-256 of
-- the whole, which an index can hold; the whole stands beside it.
--
-- A tenant is a number, which the keys of its rows begin with; an object keeps the
-- terms it carries beside its data, so that one index of terms is enough; and a term
-- is one value: tenant, name, sort and key.
--
-- The number is within the key, and not in a column before it, so that there is no
-- index by which the planner could read all that a tenant has.

-- The form of the store: one row. Open refuses a store of another form.
CREATE TABLE {{schema}}.hearsay_form (
    form integer PRIMARY KEY
);
INSERT INTO {{schema}}.hearsay_form (form) VALUES ({{form}});

-- Numbers are never used twice: whoever kept one beyond the life of its tenant
-- finds nothing by it.
CREATE TABLE {{schema}}.tenant (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name bytea NOT NULL UNIQUE,
    whole bytea
);

CREATE TABLE {{schema}}.object (
    revision bigint NOT NULL CHECK (revision > 0),
    key bytea PRIMARY KEY, -- the number of the tenant in four bytes, and the key
    whole bytea, -- of a long key, without the number
    data bytea,
    terms bytea -- each: the length of its name (7 bits, or 14 in two bytes, the lower ones first), its name, its sort (8 bytes)
) WITH (fillfactor = 90); -- no column that moves is in an index: an update stays on its page while there is room

CREATE TABLE {{schema}}.log (
    revision bigint NOT NULL CHECK (revision > 0),
    key bytea NOT NULL,
    whole bytea,
    data bytea NOT NULL,
    PRIMARY KEY (key, revision)
);

CREATE TABLE {{schema}}.term (
    entry bytea PRIMARY KEY, -- the number of the tenant, the term as an object keeps it, and the key
    whole bytea -- of a long key
);

-- ANALYZE would copy the most common values into the statistics of the database,
-- where no erasure finds them.
ALTER TABLE {{schema}}.tenant ALTER name SET STATISTICS 0, ALTER whole SET STATISTICS 0;
ALTER TABLE {{schema}}.object ALTER key SET STATISTICS 0, ALTER whole SET STATISTICS 0, ALTER data SET STATISTICS 0, ALTER terms SET STATISTICS 0;
ALTER TABLE {{schema}}.log ALTER key SET STATISTICS 0, ALTER whole SET STATISTICS 0, ALTER data SET STATISTICS 0;
ALTER TABLE {{schema}}.term ALTER entry SET STATISTICS 0, ALTER whole SET STATISTICS 0;

-- The second wall between tenants. hearsay.tenant is the number of one, set for one
-- transaction; where it was set before, PostgreSQL leaves '' behind, which is none.
-- The subselect is worked out once a statement, not once a row.
ALTER TABLE {{schema}}.object ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE {{schema}}.log ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE {{schema}}.term ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON {{schema}}.object USING (substring(key, 1, 4) = (SELECT int4send(nullif(current_setting('hearsay.tenant', true), '')::integer)));
CREATE POLICY tenant ON {{schema}}.log USING (substring(key, 1, 4) = (SELECT int4send(nullif(current_setting('hearsay.tenant', true), '')::integer)));
CREATE POLICY tenant ON {{schema}}.term USING (substring(entry, 1, 4) = (SELECT int4send(nullif(current_setting('hearsay.tenant', true), '')::integer)));

-- apply writes a batch and returns 0, or writes nothing and returns the number of
-- the first stale claim, checks first. The locks come in the order in which
-- everybody takes them; each statement sees what was committed before it began, so
-- what is read after the locks stays true until the end of the transaction.
-- (OFFSET 0 keeps the making of a key out of the search for it: under row-level
-- security the server looks into an index by what is there already.)
CREATE FUNCTION {{schema}}.apply(
    of_tenant bytea, tenant_whole bytea,
    lock_id bigint[], lock_exclusive boolean[],
    claim_key bytea[], claim_revision bigint[], look_behind boolean,
    new_key bytea[], new_whole bytea[], new_data bytea[], new_terms bytea[],
    moved_key bytea[], moved_from bigint[], moved_data bytea[], moved_names text[], moved_terms bytea[],
    cleared_key bytea[], cleared_from bigint[], cleared_data bytea[], cleared_terms bytea[],
    entry_claim bigint[], entry_key bytea[], entry_whole bytea[], entry_revision bigint[], entry_data bytea[],
    term_entry bytea[], term_whole bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    mark bytea; -- what the keys of the tenant begin with
    stale bigint;
    m record;
    names bytea[];
    carried bytea;
    kept bytea;
    gone bytea[];
    moved bigint;
    at integer;
    size integer;
BEGIN
    PERFORM CASE WHEN l.exclusive THEN pg_advisory_xact_lock(l.id) ELSE pg_advisory_xact_lock_shared(l.id) END
    FROM unnest(lock_id, lock_exclusive) AS l (id, exclusive);
    SELECT int4send(t.id), set_config('hearsay.tenant', t.id::text, true) INTO mark FROM {{schema}}.tenant t WHERE t.name = of_tenant;
    IF mark IS NULL AND new_key IS NOT NULL THEN
        INSERT INTO {{schema}}.tenant (name, whole) VALUES (of_tenant, tenant_whole) ON CONFLICT DO NOTHING;
        SELECT int4send(t.id), set_config('hearsay.tenant', t.id::text, true) INTO mark FROM {{schema}}.tenant t WHERE t.name = of_tenant;
    END IF;

    SELECT min(c.n) INTO stale FROM (SELECT mark || c.key AS key, c.revision, c.n
        FROM unnest(claim_key, claim_revision) WITH ORDINALITY AS c (key, revision, n) OFFSET 0) c
    LEFT JOIN {{schema}}.object o ON o.key = c.key
    WHERE coalesce(o.revision, 0) <> c.revision;
    IF stale IS NOT NULL OR look_behind THEN -- an object may have been put back behind its log
        SELECT least(stale, min(e.claim)) INTO stale FROM (SELECT mark || e.key AS key, e.revision, e.claim
            FROM unnest(entry_key, entry_revision, entry_claim) AS e (key, revision, claim) OFFSET 0) e
        JOIN {{schema}}.log l ON l.key = e.key AND l.revision = e.revision;
    END IF;
    IF stale IS NOT NULL THEN
        RETURN stale;
    END IF;

    IF moved_key IS NOT NULL THEN
        FOR m IN SELECT mark || u.key AS key, u.key AS bare, u.revision, u.data, u.names, u.terms
            FROM unnest(moved_key, moved_from, moved_data, moved_names, moved_terms) AS u (key, revision, data, names, terms)
        LOOP
            IF m.names IS NULL THEN
                UPDATE {{schema}}.object o SET revision = m.revision + 1, data = m.data WHERE o.key = m.key AND o.revision = m.revision;
            ELSE
                SELECT o.terms INTO carried FROM {{schema}}.object o WHERE o.key = m.key;
                names := m.names::bytea[];
                kept := '';
                at := 1;
                WHILE at <= octet_length(carried) LOOP
                    size := get_byte(carried, at - 1) + 1;
                    IF size > 128 THEN
                        size := size + 128 * get_byte(carried, at) - 127;
                    END IF;
                    IF substring(carried, at, size) = ANY (names) THEN
                        gone := gone || (mark || substring(carried, at, size + 8) || m.bare);
                    ELSE
                        kept := kept || substring(carried, at, size + 8);
                    END IF;
                    at := at + size + 8;
                END LOOP;
                UPDATE {{schema}}.object o SET revision = m.revision + 1, data = m.data, terms = nullif(kept || m.terms, '')
                WHERE o.key = m.key AND o.revision = m.revision;
            END IF;
            IF NOT FOUND THEN
                -- Somebody wrote without the locks. The batch is tried again, and finds out.
                RAISE EXCEPTION 'an object moved' USING ERRCODE = 'serialization_failure';
            END IF;
        END LOOP;
        IF gone IS NOT NULL THEN
            DELETE FROM {{schema}}.term t WHERE t.entry = ANY (gone);
        END IF;
    END IF;
    IF cleared_key IS NOT NULL THEN
        SELECT array_agg(mark || i.item || c.bare) INTO gone FROM (SELECT mark || u.key AS key, u.key AS bare FROM unnest(cleared_key) AS u (key) OFFSET 0) c
        JOIN {{schema}}.object o ON o.key = c.key CROSS JOIN LATERAL {{schema}}.items(o.terms) AS i (item);
        IF gone IS NOT NULL THEN
            DELETE FROM {{schema}}.term t WHERE t.entry = ANY (gone);
        END IF;
        UPDATE {{schema}}.object o SET revision = c.revision + 1, data = c.data, terms = c.terms
        FROM (SELECT mark || u.key AS key, u.revision, u.data, u.terms
            FROM unnest(cleared_key, cleared_from, cleared_data, cleared_terms) AS u (key, revision, data, terms) OFFSET 0) c
        WHERE o.key = c.key AND o.revision = c.revision;
        GET DIAGNOSTICS moved = ROW_COUNT;
        IF moved <> cardinality(cleared_key) THEN
            RAISE EXCEPTION 'an object moved' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF new_key IS NOT NULL THEN
        INSERT INTO {{schema}}.object (revision, key, whole, data, terms)
        SELECT 1, mark || n.key, n.whole, n.data, n.terms FROM unnest(new_key, new_whole, new_data, new_terms) AS n (key, whole, data, terms);
    END IF;
    IF entry_key IS NOT NULL THEN
        INSERT INTO {{schema}}.log (revision, key, whole, data)
        SELECT e.revision, mark || e.key, e.whole, e.data FROM unnest(entry_key, entry_whole, entry_revision, entry_data) AS e (key, whole, revision, data);
    END IF;
    IF term_entry IS NOT NULL THEN
        INSERT INTO {{schema}}.term (entry, whole)
        SELECT mark || t.entry, t.whole FROM unnest(term_entry, term_whole) AS t (entry, whole);
    END IF;
    RETURN 0;
END $$;

-- items are the terms that an object keeps, one by one.
CREATE FUNCTION {{schema}}.items(carried bytea) RETURNS SETOF bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    at integer := 1;
    size integer;
BEGIN
    WHILE at <= octet_length(carried) LOOP
        size := get_byte(carried, at - 1) + 9;
        IF size > 136 THEN
            size := size + 128 * get_byte(carried, at) - 127;
        END IF;
        RETURN NEXT substring(carried, at, size);
        at := at + size;
    END LOOP;
END $$;

-- restore sets objects outright; revision 0 removes one. The lock keeps every
-- other write of the tenant out.
CREATE FUNCTION {{schema}}.restore(
    of_tenant bytea, tenant_whole bytea, lock_id bigint,
    object_key bytea[], object_whole bytea[], object_revision bigint[], object_data bytea[], object_terms bytea[],
    term_entry bytea[], term_whole bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    mark bytea;
    keys bytea[];
    gone bytea[];
BEGIN
    PERFORM pg_advisory_xact_lock(lock_id);
    INSERT INTO {{schema}}.tenant (name, whole) SELECT of_tenant, tenant_whole
    WHERE NOT EXISTS (SELECT FROM {{schema}}.tenant t WHERE t.name = of_tenant) ON CONFLICT DO NOTHING;
    SELECT int4send(t.id), set_config('hearsay.tenant', t.id::text, true) INTO mark FROM {{schema}}.tenant t WHERE t.name = of_tenant;
    SELECT array_agg(mark || k.key) INTO keys FROM unnest(object_key) AS k (key);
    SELECT array_agg(mark || i.item || substring(o.key, 5)) INTO gone
    FROM {{schema}}.object o CROSS JOIN LATERAL {{schema}}.items(o.terms) AS i (item) WHERE o.key = ANY (keys);
    DELETE FROM {{schema}}.term t WHERE t.entry = ANY (gone);
    DELETE FROM {{schema}}.object o WHERE o.key = ANY (keys);
    INSERT INTO {{schema}}.object (revision, key, whole, data, terms)
    SELECT r.revision, mark || r.key, r.whole, r.data, r.terms
    FROM unnest(object_key, object_whole, object_revision, object_data, object_terms) AS r (key, whole, revision, data, terms)
    WHERE r.revision > 0;
    INSERT INTO {{schema}}.term (entry, whole)
    SELECT mark || t.entry, t.whole FROM unnest(term_entry, term_whole) AS t (entry, whole)
    ON CONFLICT DO NOTHING; -- a line that an object left which was lost is the line of the new one
END $$;

-- rewrite replaces log entries, or removes those without data. It returns false,
-- with nothing written, if one of them is not there or no longer what it was: the lock
-- keeps other rewrites of the log out between the look and the writing, and nothing else
-- changes an entry. (A join of entries with the log would have a plan that may read all
-- entries for each of them.)
CREATE FUNCTION {{schema}}.rewrite(of_tenant bytea, lock_id bigint, of_key bytea, entry_revision bigint[], entry_was bytea[], entry_data bytea[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    mark bytea;
    e record;
BEGIN
    PERFORM pg_advisory_xact_lock(lock_id);
    SELECT int4send(t.id) || of_key, set_config('hearsay.tenant', t.id::text, true) INTO mark FROM {{schema}}.tenant t WHERE t.name = of_tenant;
    FOR e IN SELECT u.revision, u.was FROM unnest(entry_revision, entry_was) AS u (revision, was) LOOP
        PERFORM FROM {{schema}}.log l WHERE l.key = mark AND l.revision = e.revision AND l.data = e.was;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END LOOP;
    FOR e IN SELECT u.revision, u.data FROM unnest(entry_revision, entry_data) AS u (revision, data) LOOP
        IF e.data IS NULL THEN
            DELETE FROM {{schema}}.log l WHERE l.key = mark AND l.revision = e.revision;
        ELSE
            UPDATE {{schema}}.log l SET data = e.data WHERE l.key = mark AND l.revision = e.revision;
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
    FOR t IN SELECT n.id, coalesce(n.whole, n.name) AS name FROM {{schema}}.tenant n
        WHERE coalesce(n.whole, n.name) > after ORDER BY 2
    LOOP
        EXIT WHEN listed >= most;
        PERFORM set_config('hearsay.tenant', t.id::text, true);
        IF {{schema}}.has(t.id) THEN
            listed := listed + 1;
            RETURN NEXT t.name;
        END IF;
    END LOOP;
    PERFORM set_config('hearsay.tenant', '', true);
END $$;

-- has tells whether a tenant, as which the transaction runs, has an object or a log
-- entry.
CREATE FUNCTION {{schema}}.has(of_tenant integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM {{schema}}.object o WHERE o.key > int4send(of_tenant) AND o.key < int4send(of_tenant + 1))
        OR EXISTS (SELECT FROM {{schema}}.log l WHERE l.key > int4send(of_tenant) AND l.key < int4send(of_tenant + 1));
END $$;

-- forget removes the name of a tenant that has nothing. The lock keeps every write
-- of the tenant out, so that none comes between the look and the removal.
CREATE FUNCTION {{schema}}.forget(of_tenant bytea, lock_id bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number integer;
BEGIN
    PERFORM pg_advisory_xact_lock(lock_id);
    SELECT t.id, set_config('hearsay.tenant', t.id::text, true) INTO number FROM {{schema}}.tenant t WHERE t.name = of_tenant;
    IF NOT {{schema}}.has(number) THEN
        DELETE FROM {{schema}}.tenant t WHERE t.id = number;
    END IF;
END $$;
