package spdkfake

import "slices"

// store is an lvstore. It is on its medium; a process has loaded it or not.
type store struct {
	uuid, name string
	cluster    uint64
	block      uint64
	total      uint64
	lvols      []*lvol
	base       *bdev // while loaded
	making     bool
}

const (
	defaultCluster = 4 << 20
	minCluster     = 4096  // one page of metadata
	mostClusters   = 32728 // that a store can grow to; measured
	mib            = 1 << 20
)

func (st *store) free() uint64 {
	free := st.total
	for _, l := range st.lvols {
		free -= min(free, l.allocated)
	}
	return free
}

func (st *store) show() any {
	return map[string]any{"uuid": st.uuid, "name": st.name, "base_bdev": st.base.name, "total_data_clusters": st.total,
		"free_clusters": st.free(), "block_size": st.block, "cluster_size": st.cluster, "max_growable_size": mostClusters * st.cluster}
}

// load makes the volumes on a bdev appear, unless a copy of the store is there.
func (p *process) load(b *bdev, st *store) {
	if slices.ContainsFunc(p.stores, func(s *store) bool { return s.uuid == st.uuid }) {
		return
	}
	st.base = b
	b.open(claimStore)
	p.stores = append(p.stores, st)
	for _, l := range st.lvols {
		p.show(l)
	}
}

func (p *process) unload(st *store) {
	for _, l := range st.lvols {
		if b := p.bdev(l.uuid); b != nil {
			l.writes = b.writes
			p.unregister(b)
		}
	}
	st.base.claim = ""
	p.stores = slices.DeleteFunc(p.stores, func(s *store) bool { return s == st })
}

// crashed is what the end of a process leaves on the medium.
func (m *medium) crashed() {
	if m.store == nil {
		return
	}
	m.store.lvols = slices.DeleteFunc(m.store.lvols, func(l *lvol) bool { return l.deleting })
	for _, l := range m.store.lvols {
		l.deleting = false
	}
}

// storeParams are how methods name a store: by one of both.
type storeParams struct {
	UUID *string `json:"uuid,omitempty"`
	Name *string `json:"lvs_name,omitempty"`
}

// find answers if there is no such store.
func (in storeParams) find(x *call) *store {
	if (in.UUID == nil) == (in.Name == nil) {
		x.refuse(errInval)
		return nil
	}
	for _, st := range x.server.process.stores {
		if !st.making && (in.UUID != nil && st.uuid == *in.UUID || in.Name != nil && st.name == *in.Name) {
			return st
		}
	}
	x.refuse(errNoDev)
	return nil
}

func storeCreate(x *call) {
	var in struct {
		Bdev    string `json:"bdev_name"`
		Name    string `json:"lvs_name"`
		Cluster uint64 `json:"cluster_sz,omitempty"`
		Clear   string `json:"clear_method,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	p, b := x.server.process, x.server.process.bdev(in.Bdev)
	if in.Cluster == 0 {
		in.Cluster = defaultCluster
	}
	switch {
	case !slices.Contains([]string{"", "none", "unmap", "write_zeroes"}, in.Clear):
		x.fail(errInval.Code, "Invalid clear_method parameter")
	case !validName(in.Name), in.Cluster < minCluster:
		x.refuse(errInval)
	case b == nil:
		x.refuse(errNoDev)
	case b.claim != "":
		x.refuse(errPerm)
	case slices.ContainsFunc(p.stores, func(s *store) bool { return s.name == in.Name }):
		x.refuse(errExists)
	case b.blockSize*b.numBlocks < 2*in.Cluster:
		x.finish(nil, later(codeParams, errInval))
	default:
		st := &store{uuid: x.server.newUUID(), name: in.Name, cluster: in.Cluster, total: b.blockSize*b.numBlocks/in.Cluster - 1, block: b.blockSize, base: b, making: true}
		p.stores = append(p.stores, st) // the name is taken at once, the bdev when it was cleared
		x.next(func() {
			st.making = false
			b.open(claimStore)
			if b.medium != nil {
				b.medium.store = st
			}
			x.ok(st.uuid)
		})
	}
}

func getStores(x *call) {
	var in storeParams
	if !x.decode(&in) {
		return
	}
	if in.UUID != nil || in.Name != nil {
		if st := in.find(x); st != nil {
			x.ok([]any{st.show()})
		}
		return
	}
	all := []any{}
	for _, st := range x.server.process.stores {
		if !st.making {
			all = append(all, st.show())
		}
	}
	x.ok(all)
}

func storeDelete(x *call) {
	var in storeParams
	if !x.decode(&in) {
		return
	}
	if st := in.find(x); st != nil {
		x.next(func() {
			x.server.process.unload(st)
			if st.base.medium != nil {
				st.base.medium.store = nil
			}
			x.ok(true)
		})
	}
}

func storeGrow(x *call) {
	var in storeParams
	if !x.decode(&in) {
		return
	}
	if st := in.find(x); st != nil {
		st.total = max(st.total, st.base.blockSize*st.base.numBlocks/st.cluster-1)
		x.ok(true)
	}
}

// clusters rounds up.
func (st *store) clusters(bytes uint64) uint64 { return (bytes + st.cluster - 1) / st.cluster }
