package fencemodel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/access"
	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

// effect is something that the agent is about to do to the outside.
type effect struct {
	name string
	// quiet effects cannot be told apart by any other party from what comes next.
	quiet bool
	// request is what the API server does with a request whose sender is dead; nil
	// for effects on the kernel.
	request func() error
}

// verdict is what becomes of an effect.
type verdict int

const (
	happens       verdict = iota
	diesBefore            // the agent dies, and the effect does not happen
	diesAfter             // it happens, and the agent dies before it hears of it
	diesMeanwhile         // the agent dies, and the request is still on its way
)

var errDead = errors.New("fencemodel: the agent is dead")

// process is one life of the agent. Its goroutine and the explorer take turns: one
// of them runs at any time.
type process struct {
	world    *world
	access   *access.Reconciler
	exporter *volume.Exporter

	dead     bool
	reached  chan effect  // the agent is about to do this
	verdicts chan verdict // what becomes of it
	finished chan bool    // the job is over; whether it has to be run again

	// at is the effect that a job waits before; nil when no job runs.
	at *effect
	// wrote is the last write that the API server has answered: the reconciler
	// remembers it.
	wrote string
	// history is what the running job has read and done, for telling states apart.
	history []string
}

func (w *world) boot() *process {
	p := &process{world: w, reached: make(chan effect), verdicts: make(chan verdict), finished: make(chan bool)}
	c := &agentClient{p: p}
	fs := w.bugs.configfs(&configfs{FS: w.kernel, p: p})
	clock := func() time.Time { return time.Unix(0, 0) }
	backends := export.NewBackends(w.bugs.backend(export.NewKernel(kernel.New(fs, kernel.WithClock(clock)))))
	locator := volume.NewLocator(host{}, host{})
	p.exporter = volume.NewExporter(c, backends, volume.NewHostPortals(host{}, 4420, 4421), host{})
	p.access = &access.Reconciler{
		Client: c, Recorder: silent{}, NodeName: storageNode, Locator: locator, Exporter: p.exporter,
		Delay: func() time.Duration { return time.Nanosecond },
	}
	return p
}

// job is what the agent's queue may hold.
type job string

const (
	// rebuild is the pass over the volume that every life of the agent begins with.
	rebuild job = "rebuild"
	// attend is a pass over the attachment.
	attend job = "attend"
)

// start begins a job and runs it to its first effect, or to its end.
func (p *process) start(j job) {
	p.history = []string{string(j)}
	ctx := log.IntoContext(context.Background(), logr.Discard())
	go func() {
		again := false
		switch j {
		case rebuild:
			_, err := p.exporter.Ensure(ctx, p.world.api.volume, device)
			again = err != nil
		case attend:
			result, err := p.access.Reconcile(ctx, reconcile.Request{NamespacedName: attachmentKey})
			again = err != nil && !errors.Is(err, reconcile.TerminalError(nil)) || result.RequeueAfter > 0
		}
		p.finished <- again
	}()
	p.await(j)
}

// step lets the effect happen, and runs on to the next one.
func (p *process) step(j job) {
	p.verdicts <- happens
	p.await(j)
}

func (p *process) await(j job) {
	select {
	case e := <-p.reached:
		p.at = &e
	case again := <-p.finished:
		p.at, p.history = nil, nil
		p.world.running = ""
		if again {
			p.world.pending[j] = true
		}
	}
}

// die ends the agent before, in or after the effect that it waits for.
func (p *process) die(v verdict) {
	if p.at == nil {
		p.dead = true
		return
	}
	if v == diesMeanwhile {
		p.world.delayed = append(p.world.delayed, *p.at)
	}
	p.verdicts <- v
	<-p.finished // nothing that it tries now has an effect
}

// look is a read of the cache.
func (p *process) look() error {
	if p.dead {
		return errDead
	}
	p.history = append(p.history, "saw "+describe(p.world.cache))
	return nil
}

func (p *process) effect(e effect, do func() error) error {
	if p.dead {
		return errDead
	}
	p.reached <- e
	v := <-p.verdicts
	if v == happens {
		err := do()
		p.history = append(p.history, fmt.Sprint(e.name, " answered ", err))
		return err
	}
	p.dead = true
	if v == diesAfter {
		_ = do()
	}
	return errDead
}

// configfs is the kernel as one life of the agent sees it.
type configfs struct {
	kernel.FS
	p *process
}

func (f *configfs) do(verb, path, value string, op func() error) error {
	name := verb + " " + path + " " + value
	return f.p.effect(effect{name: name, quiet: quiet(verb, path)}, op)
}

// quiet tells of effects that change what no host can see: those on objects that
// nothing refers to yet, or no longer.
func quiet(verb, path string) bool {
	last := path[strings.LastIndex(path, "/")+1:]
	return verb == "mkdir" || verb == "rmdir" && strings.HasPrefix(path, "hosts/") ||
		strings.HasPrefix(last, "attr_") || strings.HasPrefix(last, "addr_") || strings.HasPrefix(last, "device_")
}

func (f *configfs) Mkdir(path string) error {
	return f.do("mkdir", path, "", func() error { return f.FS.Mkdir(path) })
}
func (f *configfs) Rmdir(path string) error {
	return f.do("rmdir", path, "", func() error { return f.FS.Rmdir(path) })
}
func (f *configfs) Remove(path string) error {
	return f.do("unlink", path, "", func() error { return f.FS.Remove(path) })
}
func (f *configfs) WriteFile(path string, data []byte) error {
	return f.do("write", path, string(data), func() error { return f.FS.WriteFile(path, data) })
}
func (f *configfs) Symlink(target, link string) error {
	return f.do("symlink", link, target, func() error { return f.FS.Symlink(target, link) })
}

// host is the storage node beside its kernel's target: one drive with one
// partition, one address.
type host struct{ carve.VolumeManager }

func (host) Scan(context.Context) inventory.Scan {
	return inventory.Scan{Complete: true, Drives: []inventory.Drive{{Serial: serial, State: inventory.StateLive, Name: "nvme0n1"}}}
}

func (host) Partitions(string) ([]inventory.Partition, error) {
	return []inventory.Partition{{Number: 1, Path: device}}, nil
}

func (host) Uses(string) ([]inventory.Use, error) { return nil, nil }

func (host) Portals(context.Context) inventory.PortalScan {
	return inventory.PortalScan{Complete: true, Portals: []inventory.Portal{{Fabric: inventory.FabricTCP, Address: netip.MustParseAddr("10.0.0.1")}}}
}

func (host) List(context.Context, inventory.Drive) ([]carve.Volume, error) {
	return []carve.Volume{{UUID: volume.PartitionUUID(newVolume()), Number: 1, DevicePath: device}}, nil
}

// silent records no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

var attachmentKey = types.NamespacedName{Namespace: newAttachment(hostA).Namespace, Name: newAttachment(hostA).Name}
