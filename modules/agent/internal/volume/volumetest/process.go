package volumetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/spdkdrive"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
)

// ErrDead is what every call of a killed process answers: it has no more effect
// on anything.
var ErrDead = errors.New("volumetest: the process is dead")

// Process is one life of the agent on a node. When it is killed in the kernel, on
// the drive or at the API server, it is dead for all three.
type Process struct {
	Client   client.Client
	Backends export.Backends
	Locator  *volume.Locator
	// Locators are Locator and, on a node with SPDK, its drives.
	Locators volume.Locators
	Hardware Hardware
	// SPDKDrives is nil on a node without SPDK.
	SPDKDrives *spdkdrive.Host
	Exporter   *volume.Exporter
	Manager    carve.VolumeManager
	ZFS        *zfs.Manager
	Target     nvmeof.Target

	node  *Node
	sites *Sites

	mu     sync.Mutex
	dead   bool
	writes map[string]int
	total  int
	killAt int
	after  bool
}

// Boot starts an agent on the node, with this client as its API server and cache.
func (n *Node) Boot(t testing.TB, c client.Client) *Process {
	t.Helper()
	p := &Process{writes: map[string]int{}, node: n, sites: n.Sites}
	p.Target = kernel.New(&configfs{FS: n.Kernel, process: p}, kernel.WithDebugFS(n.Kernel.Debug()))
	p.Backends = export.NewBackends(export.NewKernel(p.Target))
	p.Manager = &manager{VolumeManager: n.Drive.Manager(t), node: n, process: p}
	pools, err := zfs.New(zfs.Config{
		Runner: &programs{node: n, process: p}, Devices: n.Pools, Blocks: n.Pools,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.ZFS = pools
	p.Locator, p.Hardware = volume.NewLocator(n, p.Manager), n
	p.Locators = volume.Locators{v1alpha1.BackendKernel: p.Locator}
	if n.SPDK != nil {
		p.bootSPDK(t, c)
	}
	if c != nil {
		p.Client = &apiClient{Client: c, process: p}
		p.Exporter = volume.NewExporter(p.Client, p.Backends, volume.NewHostPortals(n, 4420, 4421), p.Hardware)
	}
	return p
}

// Hardware is the node as its agents see it.
type Hardware interface {
	volume.Drives
	volume.PortalSource
}

// bootSPDK gives the process SPDK, by a client of its own.
func (p *Process) bootSPDK(t testing.TB, c client.Client) {
	t.Helper()
	known := func(context.Context) (map[string]string, error) {
		return map[string]string{p.node.Serial: p.node.address}, nil
	}
	if c != nil {
		known = volume.KnownDrives(c)
	}
	rpcClient := p.node.dial()
	host, err := spdkdrive.New(spdkdrive.Config{Kernel: p.node, Bus: pci.New(p.node.Sysfs), Prober: prober{p}, Client: rpcClient, Known: known})
	if err != nil {
		t.Fatal(err)
	}
	p.Backends = export.NewBackends(p.Backends[v1alpha1.BackendKernel], export.NewSPDK(spdk.New(rpcClient)))
	p.SPDKDrives, p.Hardware = host, host
	p.Locator = volume.NewLocator(host, p.Manager)
	p.Locators = volume.Locators{v1alpha1.BackendKernel: p.Locator, v1alpha1.BackendSPDK: volume.NewLvols(host)}
}

// prober is Probe for drives that the kernel has.
type prober struct{ p *Process }

func (x prober) Probe(ctx context.Context, d inventory.Drive) media.Finding { return x.p.probe(ctx, d) }

// Survey is what the reporter asks (report.Surveyor).
func (p *Process) Survey(ctx context.Context, d inventory.Drive, blank bool) (carve.Survey, error) {
	if d.Bdev != "" {
		return p.SPDKDrives.Survey(ctx, d)
	}
	return p.Manager.Survey(ctx, d, blank)
}

// Changes is what the reporter asks (report.Surveyor).
func (p *Process) Changes(serial string) uint64 {
	n := p.Manager.Changes(serial)
	if p.SPDKDrives != nil {
		n += p.SPDKDrives.Changes(serial)
	}
	return n
}

// Probe says what is on the drive (media.Prober).
func (p *Process) Probe(ctx context.Context, d inventory.Drive) media.Finding {
	if p.SPDKDrives != nil {
		return p.SPDKDrives.Probe(ctx, d)
	}
	return p.probe(ctx, d)
}

func (p *Process) probe(ctx context.Context, d inventory.Drive) media.Finding {
	if err := p.alive(); err != nil {
		return media.Finding{Verdict: media.Unreadable, Err: err}
	}
	found := media.NewProber(p.node.Drive.Runner(), p.node, p.node.Drive).Probe(ctx, d)
	if p.node.Drive.Runner().Killed() {
		p.Kill()
	}
	return found
}

// Revive ends what killed the last process of the node, so that another one can
// start.
func (n *Node) Revive() {
	n.Kernel.Revive()
	n.Drive.Runner().Revive()
	n.Pools.Runner().Revive()
	if n.SPDK != nil {
		n.SPDK.Clear()
		n.Sysfs.Revive()
	}
}

// programs runs the programs of the node's ZFS for one process.
type programs struct {
	node    *Node
	process *Process
}

func (r *programs) Run(ctx context.Context, c command.Cmd) (command.Result, error) {
	if r.process.Dead() {
		return command.Result{}, ErrDead
	}
	r.node.couple()
	result, err := r.node.Pools.Runner().Run(ctx, c)
	if r.node.Pools.Runner().Killed() {
		r.process.Kill()
	}
	r.node.couple()
	return result, err
}

// Kill ends the process now.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

// Dead tells whether the process was killed.
func (p *Process) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.node; n.SPDK != nil && (n.SPDK.Killed() || n.Sysfs.Killed()) {
		p.dead = true
	}
	return p.dead
}

// KillAtWrite kills the process at its n-th write to the API server from now (1 is
// the next): before it, or after it but before the answer.
func (p *Process) KillAtWrite(n int, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killAt, p.after = p.total+n, after
}

// Writes are the writes to the API server so far, by kind and subresource.
func (p *Process) Writes() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.writes)
}

func (p *Process) alive() error {
	if p.Dead() {
		return ErrDead
	}
	return nil
}

// write counts a write and runs it.
func (p *Process) write(what string, do func() error) error {
	if p.Dead() {
		return ErrDead
	}
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return ErrDead
	}
	p.total++
	p.writes[what]++
	last, after := p.total == p.killAt, p.after
	p.dead = p.dead || last
	p.mu.Unlock()
	if last && !after {
		return ErrDead
	}
	p.sites.note()
	if err := do(); err != nil || !last {
		return err
	}
	return ErrDead
}

// apiClient is the process's connection to the API server.
type apiClient struct {
	client.Client
	process *Process
}

func (c *apiClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := c.process.alive(); err != nil {
		return err
	}
	return c.Client.Get(ctx, key, o, opts...)
}

func (c *apiClient) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	if err := c.process.alive(); err != nil {
		return err
	}
	return c.Client.List(ctx, l, opts...)
}

func (c *apiClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.process.write(kindOf(o)+"/create", func() error { return c.Client.Create(ctx, o, opts...) })
}

func (c *apiClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.process.write(kindOf(o)+"/delete", func() error { return c.Client.Delete(ctx, o, opts...) })
}

func (c *apiClient) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.process.write(kindOf(o), func() error { return c.Client.Patch(ctx, o, patch, opts...) })
}

func (c *apiClient) Status() client.SubResourceWriter {
	return &statusClient{SubResourceWriter: c.Client.Status(), process: c.process}
}

type statusClient struct {
	client.SubResourceWriter
	process *Process
}

func (c *statusClient) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.process.write(kindOf(o)+"/status", func() error { return c.SubResourceWriter.Patch(ctx, o, patch, opts...) })
}

func kindOf(o client.Object) string {
	// The type's name; objects from a cache have no TypeMeta.
	name := fmt.Sprintf("%T", o)
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[i+1:]
		}
	}
	return name
}

// configfs is the process's view of the kernel.
type configfs struct {
	kernel.FS
	process *Process
}

func (f *configfs) do(op func() error) error {
	if err := f.process.alive(); err != nil {
		return err
	}
	err := op()
	if errors.Is(err, nvmeoftest.ErrKilled) {
		f.process.Kill()
	}
	return err
}

// effect is do for what changes the kernel.
func (f *configfs) effect(op func() error) error {
	return f.do(func() error {
		err := op()
		if !errors.Is(err, nvmeoftest.ErrKilled) {
			f.process.sites.note()
		}
		return err
	})
}

func (f *configfs) Mkdir(path string) error {
	return f.effect(func() error { return f.FS.Mkdir(path) })
}
func (f *configfs) Rmdir(path string) error {
	return f.effect(func() error { return f.FS.Rmdir(path) })
}
func (f *configfs) Remove(path string) error {
	return f.effect(func() error { return f.FS.Remove(path) })
}
func (f *configfs) WriteFile(path string, data []byte) error {
	return f.effect(func() error { return f.FS.WriteFile(path, data) })
}
func (f *configfs) Symlink(target, link string) error {
	return f.effect(func() error { return f.FS.Symlink(target, link) })
}
func (f *configfs) ReadDir(path string) (out []string, err error) {
	err = f.do(func() error { out, err = f.FS.ReadDir(path); return err })
	return out, err
}
func (f *configfs) ReadFile(path string) (out []byte, err error) {
	err = f.do(func() error { out, err = f.FS.ReadFile(path); return err })
	return out, err
}
func (f *configfs) Readlink(path string) (out string, err error) {
	err = f.do(func() error { out, err = f.FS.Readlink(path); return err })
	return out, err
}
