package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/redis/go-redis/v9"
)

// Inspect asks every master for its settings. In a Cluster a finding is safe if it
// is on all of them, and lists what was found if they differ.
func (d *Driver) Inspect(ctx context.Context) (memory.Inspection, error) {
	var i memory.Inspection
	err := d.call(ctx, "inspect", func() (err error) {
		i, err = d.inspect(ctx)
		return err
	})
	if err != nil {
		return memory.Inspection{}, err
	}
	return i, nil
}

func (d *Driver) inspect(ctx context.Context) (memory.Inspection, error) {
	servers, err := d.settings(ctx)
	if err != nil {
		return memory.Inspection{}, err
	}
	replicas := 0
	var name, promise []string
	var each [][]memory.Finding
	for _, s := range servers {
		replicas += s.replicas
		name = append(name, s.server())
		promise = append(promise, s.promise())
		each = append(each, s.findings())
	}
	topology := memory.Finding{Name: "topology", Found: fmt.Sprintf("%s, %d masters, %d replicas", d.mode, len(servers), replicas), Safe: replicas == 0}
	if d.mode != cluster {
		topology.Found = fmt.Sprintf("%s, %d replicas", d.mode, replicas)
	}
	i := memory.Inspection{Server: distinctTexts(name), Promise: distinctTexts(promise), Clock: servers[0].clock()}
	for _, s := range servers { // the one that is furthest off
		if c := s.clock(); time.Since(c).Abs() > time.Since(i.Clock).Abs() {
			i.Clock = c
		}
	}
	if !topology.Safe {
		topology.Loss = "the last batches before a failover, since replicas get them after they are acknowledged"
		topology.Fix = "nothing in Redis: keep a witness of what must not be lost outside of it"
		i.Promise += "; a failover to a replica may take the last ones before it"
	}
	i.Findings = append([]memory.Finding{topology}, merge(each)...)
	return i, nil
}

// merge makes one finding of those of each server: all safe or the first that is not.
func merge(each [][]memory.Finding) []memory.Finding {
	merged := slices.Clone(each[0])
	for at := range merged {
		var found []string
		for _, list := range each {
			if merged[at].Safe && !list[at].Safe {
				merged[at] = list[at]
			}
			found = append(found, list[at].Found)
		}
		merged[at].Found = distinctTexts(found)
	}
	return merged
}

func distinctTexts(list []string) string {
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// settings is what one master says of itself.
type settings struct {
	info     map[string]string
	config   map[string]string
	readable bool // CONFIG is
	replicas int
}

func (d *Driver) settings(ctx context.Context) ([]settings, error) {
	var mu sync.Mutex
	var all []settings
	err := d.masters(ctx, func(ctx context.Context, c *redis.Client) error {
		s := settings{info: map[string]string{}, config: map[string]string{}, readable: true}
		for _, section := range []string{"server", "memory", "persistence", "replication"} {
			text, err := c.Info(ctx, section).Result()
			if err != nil {
				return err
			}
			parseInfo(s.info, text)
		}
		s.replicas, _ = strconv.Atoi(s.info["connected_slaves"]) // not a number: none
		for _, name := range []string{"appendfsync", "save", "min-replicas-to-write", "aof-load-truncated", "maxmemory", "maxmemory-policy"} {
			values, err := c.ConfigGet(ctx, name).Result()
			if err != nil && code(err) == "" {
				return err
			}
			value, ok := values[name]
			if err != nil || !ok { // some providers answer with nothing instead of an error
				s.readable = false
				break
			}
			s.config[name] = value
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: there is no master", memory.ErrStore)
	}
	return all, err
}

// clock is the zero time if the server does not say: it is older than 6.2.
func (s settings) clock() time.Time {
	us, err := strconv.ParseInt(s.info["server_time_usec"], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

func (s settings) server() string {
	if v := s.info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + s.info["redis_version"]
}

func (s settings) promise() string {
	const killed = "an acknowledged batch outlives the death of the server"
	switch {
	case s.info["aof_enabled"] != "1":
		return "an acknowledged batch is lost when the server ends, unless it made a snapshot since"
	case s.config["appendfsync"] == "always":
		return killed + " and a loss of power"
	case s.config["appendfsync"] == "everysec":
		return killed + "; a loss of power may take those of the last one or two seconds, never half of one"
	case s.config["appendfsync"] == "no":
		return killed + "; a loss of power may take those of the last half minute, never half of one"
	}
	return killed + "; what a loss of power takes the server does not say"
}

const unknown = "not readable"

// get is a setting, as CONFIG says or, where that is not readable, as INFO does.
func (s settings) get(name, inInfo string) string {
	if v, ok := s.config[name]; ok {
		return v
	}
	if v, ok := s.info[inInfo]; ok {
		return v
	}
	return unknown
}

// findings are always the same ones, in the same order.
func (s settings) findings() []memory.Finding {
	finding := func(name, found string, safe bool, loss, fix string) memory.Finding {
		f := memory.Finding{Name: name, Found: found, Safe: safe}
		if !safe {
			f.Loss, f.Fix = loss, fix
		}
		return f
	}
	onOff := map[string]string{"1": "yes", "0": "no"}
	aof := s.info["aof_enabled"] == "1"
	config := "readable"
	if !s.readable {
		config = unknown
	}

	fsync := s.get("appendfsync", "")
	fsyncLoss := "the batches of the last one or two seconds, when the machine loses power or its system stops"
	switch {
	case !aof:
		fsyncLoss = "everything since the last snapshot: it is of no effect without appendonly"
	case fsync == "no":
		fsyncLoss = "the batches of the last half minute, when the machine loses power or its system stops"
	case fsync == unknown:
		fsyncLoss = "unknown: perhaps the last batches, when the machine loses power"
	}

	policy := s.get("maxmemory-policy", "maxmemory_policy")
	limit := s.get("maxmemory", "maxmemory")
	if limit == "0" {
		limit = "0 (no limit)"
	}
	save := s.get("save", "")
	if save == "" {
		save = "none"
	}
	copies := s.get("min-replicas-to-write", "")
	truncated := s.get("aof-load-truncated", "")
	status := s.info["aof_last_write_status"]
	if status == "" {
		status = "none"
	}
	return []memory.Finding{
		finding("CONFIG", config, s.readable, "unknown: the server does not say how it keeps what it acknowledged", "allow the user CONFIG GET, or ask who runs the server"),
		finding("appendonly", onOff[s.info["aof_enabled"]], aof, "everything since the last snapshot, when the server ends", "appendonly yes"),
		finding("appendfsync", fsync, aof && fsync == "always", fsyncLoss, "appendfsync always"),
		finding("aof_last_write_status", status, status == "ok" || !aof, "nothing yet: the server cannot write its file, and refuses batches", "make room on the disk of the server"),
		// What was acknowledged with appendfsync always is not in a tail that was cut off.
		finding("aof-load-truncated", truncated, truncated == "no" || fsync == "always", "the end of the file, in silence, when the server starts after a crash", "appendfsync always, or aof-load-truncated no"),
		finding("save", save, true, "", ""),
		finding("maxmemory-policy", policy, policy == "noeviction", "any object or log, in silence, when memory is full", "maxmemory-policy noeviction"),
		finding("maxmemory", limit, true, "", ""),
		finding("min-replicas-to-write", copies, s.replicas == 0 || copies != "0" && copies != unknown,
			"all that a master acknowledges while it is cut off from its replicas and they elect another", "min-replicas-to-write 1 and min-replicas-max-lag 10"),
	}
}

// strict refuses what Options.Strict asks to refuse.
func (d *Driver) strict(ctx context.Context) error {
	i, err := d.inspect(ctx)
	if err != nil {
		return err
	}
	unsafe := slices.DeleteFunc(i.Unsafe(), func(f memory.Finding) bool { return f.Name == "topology" })
	if len(unsafe) > 0 {
		return &UnsafeError{Findings: unsafe}
	}
	return nil
}
