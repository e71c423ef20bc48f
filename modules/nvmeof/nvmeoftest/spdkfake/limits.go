package spdkfake

const noLimit = 1<<64 - 1 // counts as not given

func setLimit(x *call) {
	var in struct {
		Name  string  `json:"name"`
		RWIOs *uint64 `json:"rw_ios_per_sec,omitempty"`
		RW    *uint64 `json:"rw_mbytes_per_sec,omitempty"`
		R     *uint64 `json:"r_mbytes_per_sec,omitempty"`
		W     *uint64 `json:"w_mbytes_per_sec,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	given, wanted := false, [4]*uint64{in.RWIOs, in.RW, in.R, in.W}
	for _, w := range wanted {
		given = given || w != nil && *w != noLimit
	}
	b := x.server.process.bdev(in.Name)
	switch {
	case !given:
		x.fail(errInval.Code, "No rate limits specified")
	case b == nil:
		x.refuse(errNoDev)
	case b.limited:
		x.fail(codeParams, "Failed to configure rate limit: Resource temporarily unavailable")
	default:
		for i, w := range wanted {
			if w != nil && *w != noLimit {
				b.limits[i] = *w
			}
		}
		b.limits[0] = (b.limits[0] + 999) / 1000 * 1000
		b.limited = b.claim == ""
		x.ok(true)
	}
}

func getIostat(x *call) {
	var in struct {
		Names      []string `json:"names,omitempty"`
		PerChannel bool     `json:"per_channel,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	p := x.server.process
	bdevs := p.bdevs
	if in.Names != nil {
		bdevs = nil
		for _, name := range in.Names {
			b := p.bdev(name)
			if b == nil {
				x.refuse(errNoDev)
				return
			}
			bdevs = append(bdevs, b)
		}
	}
	stats := func(more map[string]any) map[string]any {
		for _, op := range []string{"read", "write", "unmap", "copy"} {
			more["num_"+op+"_ops"] = 0
			for _, kind := range []string{op, "max_" + op, "min_" + op} {
				more[kind+"_latency_ticks"] = 0
			}
			past := map[string]string{"read": "read", "write": "written", "unmap": "unmapped", "copy": "copied"}[op]
			more["bytes_"+past] = 0
		}
		more["io_error"] = map[string]any{}
		return more
	}
	out := map[string]any{"tick_rate": 2600000000, "ticks": 1}
	if in.PerChannel && len(bdevs) == 1 {
		out["name"], out["channels"] = bdevs[0].name, []any{stats(map[string]any{"thread_id": 2})}
		x.ok(out)
		return
	}
	all := []any{}
	for _, b := range bdevs {
		all = append(all, stats(map[string]any{"name": b.name}))
	}
	out["bdevs"] = all
	x.ok(out)
}
