package spdkfake

import (
	"slices"
	"strings"
	"time"
)

// bdev is a block device. Its writes are on its medium, or in its memory.
type bdev struct {
	name, product, uuid  string
	blockSize, numBlocks uint64
	claim                string
	limits               [4]uint64
	limited              bool // a limit was set while nobody had it open
	file                 string
	medium               *medium // of a file
	lvol                 *lvol
	controller           *controller
	nsid                 uint64 // on the controller
	writes               []Write
}

// medium is a file that outlives the process.
type medium struct {
	size  uint64
	store *store
}

const (
	claimExport = "exclusive_write"
	claimStore  = "read_many_write_one"
)

func (p *process) bdev(name string) *bdev {
	i := slices.IndexFunc(p.bdevs, func(b *bdev) bool {
		return b.name == name || b.uuid == name || b.lvol != nil && b.lvol.alias() == name
	})
	if i < 0 {
		return nil
	}
	return p.bdevs[i]
}

// register adds a bdev and looks what is on it.
func (p *process) register(b *bdev) {
	p.bdevs = append(p.bdevs, b)
	p.note("bdev_register", b.name)
	if b.medium != nil && b.medium.store != nil {
		p.load(b, b.medium.store)
	}
}

// unregister takes a bdev away from all who have it.
func (p *process) unregister(b *bdev) {
	for _, st := range slices.Clone(p.stores) {
		if st.base == b {
			p.unload(st)
		}
	}
	for _, sub := range p.subsystems {
		sub.namespaces = slices.DeleteFunc(sub.namespaces, func(n *namespace) bool { return n.bdev == b })
	}
	p.bdevs = slices.DeleteFunc(p.bdevs, func(x *bdev) bool { return x == b })
	p.note("bdev_unregister", b.name)
}

func (b *bdev) open(claim string) {
	b.claim, b.limited = claim, false
}

var ioTypes = []string{"read", "write", "unmap", "flush", "reset", "nvme_admin", "nvme_io", "nvme_io_md", "write_zeroes", "zcopy",
	"get_zone_info", "zone_management", "zone_append", "compare", "compare_and_write", "abort", "seek_hole", "seek_data", "copy",
	"nvme_iov_md", "nvme_nssr", "write_uncorrectable"}

func (b *bdev) supported() []string {
	switch {
	case b.lvol != nil && b.lvol.snapshot:
		return []string{"read", "reset", "seek_hole", "seek_data"}
	case b.lvol != nil:
		return []string{"read", "write", "unmap", "reset", "write_zeroes", "seek_hole", "seek_data"}
	case b.file != "":
		return []string{"read", "write", "flush", "reset", "write_zeroes"}
	}
	return []string{"read", "write", "unmap", "flush", "reset", "write_zeroes", "zcopy", "compare", "abort", "copy"}
}

func (b *bdev) show() any {
	types := map[string]bool{}
	for _, t := range ioTypes {
		types[t] = slices.Contains(b.supported(), t)
	}
	aliases, driver := []string{b.uuid}, map[string]any{}
	switch {
	case b.lvol != nil:
		aliases, driver["lvol"] = []string{b.lvol.alias()}, b.lvol.show()
	case b.controller != nil:
		driver["nvme"], driver["mp_policy"] = b.showNVMe(), "active_passive"
	case b.file != "":
		driver["aio"] = map[string]any{"filename": b.file, "block_size_override": true, "readonly": false, "fallocate": false, "nowait": false}
	}
	out := map[string]any{
		"name": b.name, "aliases": aliases, "product_name": b.product, "block_size": b.blockSize, "num_blocks": b.numBlocks,
		"preferred_write_alignment": 0, "preferred_write_granularity": 0, "optimal_write_size": 0,
		"preferred_unmap_alignment": 0, "preferred_unmap_granularity": 0, "uuid": b.uuid,
		"assigned_rate_limits": map[string]uint64{"rw_ios_per_sec": b.limits[0], "rw_mbytes_per_sec": b.limits[1],
			"r_mbytes_per_sec": b.limits[2], "w_mbytes_per_sec": b.limits[3]},
		"claimed": b.claim != "", "zoned": false, "supported_io_types": types, "driver_specific": driver,
	}
	if b.claim != "" {
		out["claim_type"] = b.claim
	}
	if b.lvol == nil && b.file == "" {
		out["numa_id"] = -1
	}
	return out
}

func getBdevs(x *call) {
	var in struct {
		Name    *string `json:"name,omitempty"`
		Timeout uint64  `json:"timeout,omitempty"` // ms
	}
	if !x.decode(&in) {
		return
	}
	p := x.server.process
	all := []any{}
	if in.Name == nil {
		for _, b := range p.bdevs {
			all = append(all, b.show())
		}
		x.ok(all)
		return
	}
	there := func() bool { return p.bdev(*in.Name) != nil }
	switch {
	case there():
		x.ok([]any{p.bdev(*in.Name).show()})
	case in.Timeout == 0:
		x.refuse(errNoDev)
	default:
		w := x.when(there, func() { x.ok([]any{p.bdev(*in.Name).show()}) })
		x.within(time.Duration(in.Timeout)*time.Millisecond, w, errTimeout)
	}
}

func powerOfTwo(n uint64) bool { return n > 0 && n&(n-1) == 0 }

// tooMuch is a malloc bdev that no machine of these has memory for.
const tooMuch = 1 << 40

func mallocCreate(x *call) {
	var in struct {
		Name      *string `json:"name,omitempty"`
		NumBlocks uint64  `json:"num_blocks"`
		BlockSize uint64  `json:"block_size"`
		UUID      string  `json:"uuid,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	p := x.server.process
	switch {
	case in.NumBlocks == 0, in.BlockSize%512 != 0, in.BlockSize == 0:
		x.refuse(errInval)
		return
	case in.NumBlocks*in.BlockSize >= tooMuch:
		x.refuse(errNoMem)
		return
	}
	name := "Malloc" + string(rune('0'+p.mallocs%10))
	if in.Name != nil {
		name = *in.Name
	} else {
		p.mallocs++
	}
	x.create(&bdev{name: name, product: "Malloc disk", uuid: in.UUID, blockSize: in.BlockSize, numBlocks: in.NumBlocks})
}

// create registers a bdev that its maker has made.
func (x *call) create(b *bdev) {
	p := x.server.process
	if p.bdev(b.name) != nil {
		x.refuse(errExists)
		return
	}
	if b.uuid == "" {
		b.uuid = x.server.newUUID()
	}
	p.register(b)
	x.ok(b.name)
}

func aioCreate(x *call) {
	var in struct {
		Name      string `json:"name"`
		File      string `json:"filename"`
		BlockSize uint64 `json:"block_size,omitempty"`
		Readonly  bool   `json:"readonly,omitempty"`
		Fallocate bool   `json:"fallocate,omitempty"`
		UUID      string `json:"uuid,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	m := x.server.files[in.File]
	switch {
	case x.server.process.bdev(in.Name) != nil:
		x.refuse(errExists)
	case m == nil:
		x.refuse(errNoFile)
	case !powerOfTwo(in.BlockSize) || in.BlockSize < 512: // of a regular file it cannot be found out
		x.refuse(errInval)
	default:
		x.create(&bdev{name: in.Name, product: "AIO disk", uuid: in.UUID, blockSize: in.BlockSize, numBlocks: m.size / in.BlockSize, file: in.File, medium: m})
	}
}

func aioRescan(x *call) {
	b, ok := x.named("name")
	if !ok {
		return
	}
	if b.medium == nil {
		x.refuse(errNoDev)
		return
	}
	b.numBlocks = b.medium.size / b.blockSize
	x.ok(true)
}

func delayCreate(x *call) {
	var in struct {
		Base string `json:"base_bdev_name"`
		Name string `json:"name"`
		A    uint64 `json:"avg_read_latency"`
		B    uint64 `json:"p99_read_latency"`
		C    uint64 `json:"avg_write_latency"`
		D    uint64 `json:"p99_write_latency"`
	}
	if !x.decode(&in) {
		return
	}
	base := x.server.process.bdev(in.Base)
	if base == nil {
		x.refuse(errNoDev)
		return
	}
	base.open(claimExport)
	x.create(&bdev{name: in.Name, product: "delay", blockSize: base.blockSize, numBlocks: base.numBlocks})
}

// named reads the one parameter that names a bdev, and answers if there is none.
func (x *call) named(key string) (*bdev, bool) {
	var name string
	switch key {
	case "lvol_name":
		var in struct {
			Name string `json:"lvol_name"`
		}
		if !x.decode(&in) {
			return nil, false
		}
		name = in.Name
	default:
		var in struct {
			Name string `json:"name"`
		}
		if !x.decode(&in) {
			return nil, false
		}
		name = in.Name
	}
	b := x.server.process.bdev(name)
	if b == nil {
		x.refuse(errNoDev)
	}
	return b, b != nil
}

// deleteBdev waits for the I/O in flight, under whoever has the bdev.
func deleteBdev(x *call) {
	b, ok := x.named("name")
	if !ok {
		return
	}
	x.when(func() bool { return !x.server.busy(b) }, func() {
		x.server.process.unregister(b)
		x.ok(true)
	})
}

// Write is one write that has reached a medium.
type Write struct {
	Host string
	Data string
}

// Writes returns what has reached the bdev with this name, alias or UUID.
func (s *Server) Writes(name string) []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.process.bdev(name); b != nil {
		return slices.Clone(b.writes)
	}
	return nil
}

// validName tells whether SPDK takes the name for a store or volume.
func validName(name string) bool {
	return name != "" && len(name) < 64 && !strings.ContainsRune(name, 0)
}
