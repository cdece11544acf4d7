-- A put can take all terms from an object without knowing them, and log entries are
-- rewritten only if they are still what whoever rewrites them has read.

DROP FUNCTION {{schema}}.apply, {{schema}}.rewrite;

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
