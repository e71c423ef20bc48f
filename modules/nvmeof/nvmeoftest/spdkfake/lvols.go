package spdkfake

import "slices"

// lvol is a volume or snapshot. clusters is the size of its blob.
type lvol struct {
	store          *store
	uuid, name     string
	thin, snapshot bool
	clusters       uint64
	allocated      uint64
	parent         *lvol
	deleting       bool
	writes         []Write
}

func (l *lvol) alias() string { return l.store.name + "/" + l.name }

func (l *lvol) clones() []string {
	var names []string
	for _, other := range l.store.lvols {
		if other.parent == l {
			names = append(names, other.name)
		}
	}
	return names
}

func (l *lvol) show() any {
	out := map[string]any{"lvol_store_uuid": l.store.uuid, "base_bdev": l.store.base.name, "thin_provision": l.thin,
		"num_allocated_clusters": l.allocated, "snapshot": l.snapshot, "clone": l.parent != nil, "esnap_clone": false}
	if l.parent != nil {
		out["base_snapshot"] = l.parent.name
	}
	if l.snapshot {
		out["clones"] = l.clones()
	}
	return out
}

func (st *store) lvol(name string) *lvol {
	if i := slices.IndexFunc(st.lvols, func(l *lvol) bool { return l.name == name }); i >= 0 {
		return st.lvols[i]
	}
	return nil
}

// show registers the bdev of a volume.
func (p *process) show(l *lvol) {
	p.register(&bdev{name: l.uuid, product: "Logical Volume", uuid: l.uuid, blockSize: l.store.base.blockSize,
		numBlocks: l.clusters * l.store.cluster / l.store.base.blockSize, lvol: l, writes: l.writes})
}

func lvolCreate(x *call) {
	var in struct {
		storeParams
		Name  string
		Size  uint64
		Thin  bool
		Clear string
	}
	var ok bool
	if x.server.atLeast(23, 5) {
		var p struct {
			UUID  *string `json:"uuid,omitempty"`
			Store *string `json:"lvs_name,omitempty"`
			Name  string  `json:"lvol_name"`
			MiB   uint64  `json:"size_in_mib"`
			Thin  bool    `json:"thin_provision,omitempty"`
			Clear string  `json:"clear_method,omitempty"`
		}
		ok = x.decode(&p)
		in.storeParams, in.Name, in.Size, in.Thin, in.Clear = storeParams{p.UUID, p.Store}, p.Name, p.MiB*mib, p.Thin, p.Clear
	} else {
		var p struct {
			UUID  *string `json:"uuid,omitempty"`
			Store *string `json:"lvs_name,omitempty"`
			Name  string  `json:"lvol_name"`
			Size  uint64  `json:"size"`
			Thin  bool    `json:"thin_provision,omitempty"`
			Clear string  `json:"clear_method,omitempty"`
		}
		ok = x.decode(&p)
		in.storeParams, in.Name, in.Size, in.Thin, in.Clear = storeParams{p.UUID, p.Store}, p.Name, p.Size, p.Thin, p.Clear
	}
	if !ok {
		return
	}
	st := in.find(x)
	if st == nil {
		return
	}
	l := &lvol{store: st, uuid: x.server.newUUID(), name: in.Name, thin: in.Thin, clusters: st.clusters(in.Size)}
	if !in.Thin {
		l.allocated = l.clusters
	}
	switch {
	case !slices.Contains([]string{"", "none", "unmap", "write_zeroes"}, in.Clear):
		x.fail(errInval.Code, "Invalid clean_method option")
	case !validName(in.Name):
		x.refuse(errInval)
	case st.lvol(in.Name) != nil:
		x.refuse(errExists)
	case l.allocated > st.free():
		x.fail(codeParams, "No space left on device")
	default:
		x.made(l)
	}
}

func (x *call) made(l *lvol) {
	l.store.lvols = append(l.store.lvols, l)
	x.server.process.show(l)
	x.ok(l.uuid)
}

// lvolNamed returns the volume, and answers if there is none.
func (x *call) lvolNamed(name string) *lvol {
	for _, st := range x.server.process.stores {
		for _, l := range st.lvols {
			if l.uuid == name || l.alias() == name {
				return l
			}
		}
	}
	x.refuse(errNoDev)
	return nil
}

func lvolResize(x *call) {
	var name string
	var bytes uint64
	if x.server.atLeast(23, 5) {
		var in struct {
			Name string `json:"name"`
			MiB  uint64 `json:"size_in_mib"`
		}
		if !x.decode(&in) {
			return
		}
		name, bytes = in.Name, in.MiB*mib
	} else {
		var in struct {
			Name string `json:"name"`
			Size uint64 `json:"size"`
		}
		if !x.decode(&in) {
			return
		}
		name, bytes = in.Name, in.Size
	}
	l := x.lvolNamed(name)
	switch {
	case l == nil:
	case l.snapshot:
		x.finish(nil, later(codeParams, errPerm))
	default:
		x.next(func() { x.resize(l, l.store.clusters(bytes)) })
	}
}

func (x *call) resize(l *lvol, clusters uint64) {
	b := x.server.process.bdev(l.uuid)
	allocated := clusters
	if l.thin {
		allocated = min(l.allocated, clusters)
	}
	if allocated > l.allocated && allocated-l.allocated > l.store.free() {
		x.fail(codeParams, "No space left on device")
		return
	}
	shrink := clusters < l.clusters
	l.clusters, l.allocated = clusters, allocated
	if shrink && b.claim != "" {
		// It is refused after the clusters are gone, and the bdev does not know.
		x.fail(codeParams, "Device or resource busy")
		return
	}
	b.numBlocks = clusters * l.store.cluster / l.store.base.blockSize
	x.ok(true)
}

func lvolSnapshot(x *call) {
	var in struct {
		Origin string `json:"lvol_name"`
		Name   string `json:"snapshot_name"`
	}
	if !x.decode(&in) {
		return
	}
	l := x.lvolNamed(in.Origin)
	switch {
	case l == nil:
	case l.snapshot:
		x.finish(nil, later(codeParams, errInval))
	case l.store.lvol(in.Name) != nil:
		x.finish(nil, later(codeParams, errExists))
	case !validName(in.Name):
		x.refuse(errInval)
	default:
		snap := &lvol{store: l.store, uuid: x.server.newUUID(), name: in.Name, snapshot: true, thin: l.thin,
			clusters: l.clusters, allocated: l.allocated, parent: l.parent}
		l.thin, l.allocated, l.parent = true, 0, snap
		x.made(snap)
	}
}

func lvolClone(x *call) {
	var in struct {
		Snapshot string `json:"snapshot_name"`
		Name     string `json:"clone_name"`
	}
	if !x.decode(&in) {
		return
	}
	snap := x.lvolNamed(in.Snapshot)
	switch {
	case snap == nil:
	case !snap.snapshot:
		x.finish(nil, later(codeParams, errInval))
	case snap.store.lvol(in.Name) != nil:
		x.finish(nil, later(codeParams, errExists))
	case !validName(in.Name):
		x.refuse(errInval)
	default:
		x.made(&lvol{store: snap.store, uuid: x.server.newUUID(), name: in.Name, thin: true, clusters: snap.clusters, parent: snap})
	}
}

// nameParams names a volume.
type nameParams struct {
	Name string `json:"name"`
}

// lvolDetach is inflate and decouple_parent.
func lvolDetach(inflate bool) func(*call) {
	return func(x *call) {
		var in nameParams
		if !x.decode(&in) {
			return
		}
		l := x.lvolNamed(in.Name)
		switch {
		case l == nil:
			return
		case inflate:
			l.allocated, l.thin, l.parent = l.clusters, false, nil
		case l.parent == nil:
			x.finish(nil, later(codeParams, errInval))
			return
		default:
			l.allocated, l.parent = min(l.clusters, l.allocated+l.parent.allocated), l.parent.parent
		}
		x.ok(true)
	}
}

func lvolRename(x *call) {
	var in struct {
		Old string `json:"old_name"`
		New string `json:"new_name"`
	}
	if !x.decode(&in) {
		return
	}
	l := x.lvolNamed(in.Old)
	switch {
	case l == nil:
	case l.store.lvol(in.New) != nil:
		x.finish(nil, later(codeParams, errExists))
	default:
		l.name = in.New
		x.ok(true)
	}
}

func lvolReadOnly(x *call) {
	var in nameParams
	if x.decode(&in) && x.lvolNamed(in.Name) != nil {
		x.ok(true)
	}
}

// lvolDelete refuses nothing but what has clones: neither an export nor a host that
// writes.
func lvolDelete(x *call) {
	var in nameParams
	if !x.decode(&in) {
		return
	}
	l := x.lvolNamed(in.Name)
	if l == nil {
		return
	}
	clones := l.clones()
	switch {
	case l.deleting:
		x.finish(nil, &rpcError{codeInternal, "Device or resource busy"})
		return
	case len(clones) > 1:
		x.finish(nil, later(codeInternal, errPerm))
		return
	}
	p, b := x.server.process, x.server.process.bdev(l.uuid)
	l.deleting = true
	busy := func() bool { return x.server.busy(b) }
	if !busy() {
		p.unregister(b)
	}
	x.when(func() bool { return !busy() }, func() {
		if p.bdev(l.uuid) != nil {
			p.unregister(b)
		}
		if len(clones) == 1 {
			heir := l.store.lvol(clones[0])
			heir.allocated, heir.parent = min(heir.clusters, heir.allocated+l.allocated), l.parent
		}
		l.store.lvols = slices.DeleteFunc(l.store.lvols, func(o *lvol) bool { return o == l })
		x.ok(true)
	})
}

func getLvols(x *call) {
	var in struct {
		UUID *string `json:"lvs_uuid,omitempty"`
		Name *string `json:"lvs_name,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	stores := x.server.process.stores
	if in.UUID != nil || in.Name != nil {
		st := storeParams(in).find(x)
		if st == nil {
			return
		}
		stores = []*store{st}
	}
	all := []any{}
	for _, st := range stores {
		for _, l := range st.lvols {
			all = append(all, map[string]any{"alias": l.alias(), "uuid": l.uuid, "name": l.name, "is_thin_provisioned": l.thin,
				"is_snapshot": l.snapshot, "is_clone": l.parent != nil, "is_esnap_clone": false, "is_degraded": false,
				"num_allocated_clusters": l.allocated, "lvs": map[string]string{"name": st.name, "uuid": st.uuid}})
		}
	}
	x.ok(all)
}
