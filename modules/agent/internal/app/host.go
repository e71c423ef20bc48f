package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/carve/blockdev"
	"github.com/distort-io/distort/modules/agent/internal/carve/gpt"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/report"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

// Hardware is what a node's drives and addresses are read from.
type Hardware interface {
	volume.Drives
	volume.PortalSource
}

// Host is everything of the node that the agent reads and changes. Tests bring
// one of their own.
type Host struct {
	Hardware Hardware
	Media    report.Prober
	Manager  carve.VolumeManager
	ZFS      *zfs.Manager
	Target   nvmeof.Target
	// SPDK is nil on a node without it.
	SPDK *SPDK
}

// OpenHost returns this machine.
func OpenHost(ctx context.Context, o Options, logger logr.Logger) (Host, error) {
	run := command.NewExec()
	if o.LoadModules {
		loadModules(ctx, run, logger, o.modules())
	}
	nvmet := filepath.Join(o.ConfigfsRoot, "nvmet")
	if err := checkTarget(nvmet); err != nil {
		return Host{}, err
	}
	reader, err := inventory.New(inventory.Config{
		Roots: inventory.Roots{Sys: o.SysfsRoot, Proc: o.ProcfsRoot, Dev: o.DevRoot},
		Deny:  o.DeviceDeny, TCPInterface: o.TCPInterface, TCPAddresses: o.TCPAddresses,
	})
	if err != nil {
		return Host{}, err
	}
	prober := media.NewProber(run, reader, blockdev.Host{})
	manager, err := gpt.New(gpt.Config{Runner: run, Prober: prober, Kernel: reader, Blocks: blockdev.Host{}})
	if err != nil {
		return Host{}, err
	}
	pools, err := zfs.New(zfs.Config{Runner: run, Devices: zfs.HostDevices{Dev: o.DevRoot}, Blocks: blockdev.Host{}})
	if err != nil {
		return Host{}, err
	}
	target := kernel.New(kernel.OS(nvmet), kernel.WithDebugFS(kernel.OS(filepath.Join(o.SysfsRoot, "kernel", "debug", "nvmet"))))
	withSPDK, err := openSPDK(o, reader, logger)
	if err != nil {
		return Host{}, err
	}
	return Host{Hardware: reader, Media: prober, Manager: manager, ZFS: pools, Target: target, SPDK: withSPDK}, nil
}

// loadModules loads the target's modules. One that cannot be loaded is no end: a
// node without RDMA serves TCP, and what is built into the kernel needs none.
func loadModules(ctx context.Context, run command.Runner, logger logr.Logger, modules []string) {
	for _, module := range modules {
		if _, err := run.Run(ctx, command.New("modprobe", "--", module)); err != nil {
			logger.Info("kernel module was not loaded", "module", module, "reason", err.Error())
		}
	}
}

// checkTarget says what to do when the kernel's target is not there.
func checkTarget(nvmet string) error {
	_, err := os.Stat(nvmet)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist: load the kernel module nvmet (and nvmet-tcp, nvmet-rdma) on the node, or start with --load-modules; configfs must be mounted at %s",
			nvmet, filepath.Dir(nvmet))
	}
	if err != nil {
		return fmt.Errorf("look for the kernel's target: %w", err)
	}
	return nil
}
