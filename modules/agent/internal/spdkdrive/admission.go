package spdkdrive

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/nvmeof/spdk/supervisor"
)

// Plan is what a target is to have that the agent starts.
type Plan struct {
	// CoreMask are the cores that it runs on, such as 0x3.
	CoreMask string
	// MemoryMiB is what it takes of huge pages.
	MemoryMiB int
	// SmallBuffers and LargeBuffers are its pools of I/O buffers.
	SmallBuffers, LargeBuffers int
	// Queues is how many queues of hosts are expected in all, the admin queues included.
	Queues int
}

// Sizes in SPDK (lib/thread/iobuf.c, lib/bdev, lib/accel, lib/nvmf; v26.05).
const (
	smallBuffer = 8 << 10
	largeBuffer = 132 << 10
	// Each core keeps so many small and large buffers to itself: bdev and accel 128 and
	// 16 each, and 32 for each of two transports.
	smallPerCore = 2*128 + 2*32
	largePerCore = 2*16 + 2*32
	// besidesBuffers is what a target of one core took without its buffers; it started
	// with 512 MiB and the pools' defaults, and not with 256.
	besidesBuffers = 128 << 20
)

// ErrRefused: the node, or a target that somebody else runs, has too little.
var ErrRefused = errors.New("SPDK is not used")

// Admit tells whether the node has what the plan needs, and shows the arithmetic if
// it does not: SPDK itself says little, or starts and lets I/O wait for buffers.
func (p Plan) Admit(bus *pci.Bus) error {
	cores, err := supervisor.Cores(p.CoreMask)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	online, err := bus.OnlineCPUs()
	if err != nil {
		return err
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...))
	}
	for _, core := range slices.Sorted(maps.Keys(cores)) {
		if !online[core] {
			refuse("core mask %s names CPU %d; online are %d: %v", p.CoreMask, core, len(online), slices.Sorted(maps.Keys(online)))
		}
	}
	if len(cores) >= len(online) {
		refuse("core mask %s takes %d of %d CPUs; one must be left for everything else", p.CoreMask, len(cores), len(online))
	}
	errs = append(errs, p.pools(len(cores)))
	buffers := p.SmallBuffers*smallBuffer + p.LargeBuffers*largeBuffer
	if need := buffers + besidesBuffers; p.MemoryMiB<<20 < need {
		refuse("%d MiB are less than %d MiB: %d small buffers of 8 KiB and %d large ones of 132 KiB take %d MiB, everything else %d MiB",
			p.MemoryMiB, ceilMiB(need), p.SmallBuffers, p.LargeBuffers, ceilMiB(buffers), besidesBuffers>>20)
	}
	free, err := bus.FreeHugePages()
	if err != nil {
		return err
	}
	if need := int64(p.MemoryMiB) << 20; free < need {
		refuse("%d MiB of huge pages are wanted and %d MiB are free; reserve more on the node (vm.nr_hugepages)", p.MemoryMiB, free>>20)
	}
	return errors.Join(errs...)
}

// pools refuses pools of I/O buffers that are too small for the queues, with so many
// cores.
func (p Plan) pools(cores int) error {
	var errs []error
	for _, pool := range []struct {
		kind          string
		size, perCore int
	}{{"small", p.SmallBuffers, smallPerCore}, {"large", p.LargeBuffers, largePerCore}} {
		if kept := cores * pool.perCore; pool.size-kept < p.Queues {
			errs = append(errs, fmt.Errorf("%w: the pool has %d %s buffers, of which %d cores keep %d each (%d); the %d that are left are fewer than the %d queues that are expected",
				ErrRefused, pool.size, pool.kind, cores, pool.perCore, kept, max(0, pool.size-kept), p.Queues))
		}
	}
	return errors.Join(errs...)
}

func ceilMiB(bytes int) int { return (bytes + 1<<20 - 1) >> 20 }
