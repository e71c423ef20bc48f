package spdkfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// only keeps one key of an object of parameters.
func only(params []byte, key string) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(params, &object) != nil || object[key] == nil {
		return nil
	}
	return fmt.Appendf(nil, `{%q:%s}`, key, object[key])
}

type version struct {
	Version string        `json:"version"`
	Fields  versionFields `json:"fields"`
}

type versionFields struct {
	Major  int    `json:"major"`
	Minor  int    `json:"minor"`
	Patch  int    `json:"patch"`
	Suffix string `json:"suffix"`
	Commit string `json:"commit"`
}

func getVersion(x *call) {
	if !x.none() {
		return
	}
	o := x.server.opts
	x.ok(version{fmt.Sprintf("SPDK v%02d.%02d git sha1 %s", o.major, o.minor, o.commit), versionFields{Major: o.major, Minor: o.minor, Commit: o.commit}})
}

func getMethods(x *call) {
	var in struct {
		Current bool `json:"current,omitempty"`
		Aliases bool `json:"include_aliases,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	ready := x.server.process.initialised
	names := slices.Sorted(maps.Keys(methods))
	if in.Current {
		names = slices.DeleteFunc(names, func(n string) bool { return !methods[n].always && methods[n].startup == ready })
	}
	x.ok(names)
}

func getReactors(x *call) {
	if !x.none() {
		return
	}
	threads := []any{}
	for i, name := range []string{"app_thread", "nvmf_tgt_poll_group_000"} {
		threads = append(threads, map[string]any{"name": name, "id": i + 1, "cpumask": "1", "elapsed": 1})
	}
	x.ok(map[string]any{"tick_rate": 2600000000, "pid": os.Getpid(), "reactors": []any{map[string]any{"lcore": 0, "numa_id": 0, "tid": 6488,
		"busy": 1, "idle": 1, "in_interrupt": false, "irq": 0, "sys": 1, "usr": 1, "lw_threads": threads}}})
}

func startInit(x *call) {
	if x.none() {
		x.server.process.initialised = true
		x.ok(true)
	}
}

func waitInit(x *call) {
	if x.none() {
		p := x.server.process
		x.when(func() bool { return p.initialised }, func() { x.ok(true) })
	}
}

func waitExamine(x *call) {
	if x.none() {
		x.ok(true)
	}
}

func iobufOptions(x *call) {
	var in struct {
		SmallCount *uint64 `json:"small_pool_count,omitempty"`
		LargeCount *uint64 `json:"large_pool_count,omitempty"`
		SmallSize  *uint64 `json:"small_bufsize,omitempty"`
		LargeSize  *uint64 `json:"large_bufsize,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	less := func(v *uint64, least uint64) bool { return v != nil && *v < least }
	if less(in.SmallCount, 64) || less(in.LargeCount, 8) || less(in.SmallSize, 4096) || less(in.LargeSize, 8192) {
		x.refuse(errInval)
		return
	}
	pools := &x.server.process.iobuf
	if in.SmallCount != nil {
		pools.small = *in.SmallCount
	}
	if in.LargeCount != nil {
		pools.large = *in.LargeCount
	}
	x.ok(true)
}

// getConfig knows the pools of I/O buffers alone, as save_config has them.
func getConfig(x *call) {
	var in struct {
		Name string `json:"name"`
	}
	if !x.decode(&in) {
		return
	}
	if in.Name != "iobuf" {
		x.ok([]any{})
		return
	}
	pools := x.server.process.iobuf
	x.ok([]any{map[string]any{"method": "iobuf_set_options", "params": map[string]any{
		"small_pool_count": pools.small, "large_pool_count": pools.large, "small_bufsize": 8192, "large_bufsize": 135168, "enable_numa": false,
	}}})
}

func bdevOptions(x *call) {
	var in struct {
		Pool  uint64 `json:"bdev_io_pool_size,omitempty"`
		Cache uint64 `json:"bdev_io_cache_size,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	if in.Cache > 0 && in.Pool < in.Cache {
		x.fail(codeParams, fmt.Sprintf("Pool size %d too small for cache size %d", in.Pool, in.Cache))
		return
	}
	x.ok(true)
}

// accept takes options that change nothing here.
func accept(x *call) { x.ok(true) }

func notifyTypes(x *call) {
	if x.none() {
		x.ok([]string{"bdev_register", "bdev_unregister", "bdev_resize"})
	}
}

func getNotes(x *call) {
	var in struct {
		ID  uint64 `json:"id,omitempty"`
		Max uint64 `json:"max,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	out := []note{}
	for _, n := range x.server.process.notes {
		if uint64(n.ID) >= in.ID && (in.Max == 0 || uint64(len(out)) < in.Max) {
			out = append(out, n)
		}
	}
	x.ok(out)
}

func killInstance(x *call) {
	var in struct {
		Signal string `json:"sig_name"`
	}
	if !x.decode(&in) {
		return
	}
	if !slices.Contains([]string{"SIGINT", "SIGTERM", "SIGQUIT", "SIGHUP", "SIGKILL", "SIGUSR1"}, in.Signal) {
		x.refuse(badParams)
		return
	}
	x.ok(true)
}

func nvmfStats(x *call) {
	group := map[string]any{"name": "nvmf_tgt_poll_group_000", "pending_bdev_io": 0, "completed_nvme_io": 0, "current_unassociated_qpairs": 0}
	for _, kind := range []string{"admin", "io"} {
		group[kind+"_qpairs"], group["current_"+kind+"_qpairs"] = 0, 0
	}
	transports := []any{}
	for _, t := range x.server.process.transports {
		transports = append(transports, map[string]any{"trtype": t})
	}
	group["transports"] = transports
	x.ok(map[string]any{"tick_rate": 2600000000, "poll_groups": []any{group}})
}

func iobufStats(x *call) {
	pool := map[string]any{"cache": 0, "main": 0, "retry": 0, "cache_size": 0}
	all := []any{}
	for _, module := range []string{"accel", "bdev"} {
		all = append(all, map[string]any{"module": module, "small_pool": pool, "large_pool": pool})
	}
	x.ok(all)
}
