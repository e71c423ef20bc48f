package ctl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
)

// exportFlags is the command line of export, as text.
type exportFlags struct {
	nqn, serial, model, uuid string
	hosts, listen            []string
}

func (a *app) exportCommand() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export DEVICE --nqn NQN --host NQN... --listen tcp://ADDRESS:PORT...",
		Short: "Export a block device to the named hosts, and to no other",
		Long: `Export a block device to the named hosts, and to no other.

The export becomes exactly what the command says: repeat it to repair it, or
with other hosts to replace them (those that leave are fenced first).
Without --uuid the identity is derived from NQN and DEVICE, so that an export
made again is the same disk to its hosts; give DEVICE by a stable path such as
/dev/disk/by-id/... for that. With --target spdk, DEVICE is the name of a bdev,
which for a logical volume is its UUID.`,
		Example: `  nvmeofctl export /dev/disk/by-id/nvme-X --nqn nqn.2026-02.com.example:disk1 \
      --host nqn.2014-08.org.nvmexpress:uuid:07b7028d-b822-404b-9cde-ee475895701b \
      --listen tcp://10.0.0.1:4420 --listen tcp://[fd00::1]:4420`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			device := args[0]
			if a.where.Kind == KindSPDK {
				device = spdk.DevicePath(device)
			}
			want, err := f.subsystem(device)
			if err != nil {
				return err
			}
			ctx, cancel, target := a.begin(cmd)
			defer cancel()
			return a.export(ctx, target, want)
		},
	}
	cmd.Flags().StringVar(&f.nqn, "nqn", "", "NQN of the subsystem (required)")
	cmd.Flags().StringSliceVar(&f.hosts, "host", nil, "NQN of a host that may connect (required, repeatable)")
	cmd.Flags().StringSliceVar(&f.listen, "listen", nil, "listener, tcp://ADDRESS:PORT or rdma://ADDRESS:PORT, IPv6 in brackets (required, repeatable)")
	cmd.Flags().StringVar(&f.uuid, "uuid", "", "UUID of the namespace (default: derived from NQN and DEVICE)")
	cmd.Flags().StringVar(&f.serial, "serial", "", "serial number (default: derived from NQN)")
	cmd.Flags().StringVar(&f.model, "model", "", "model number (default: the target's)")
	return cmd
}

// subsystem parses the command line.
func (f exportFlags) subsystem(device string) (nvmeof.Subsystem, error) {
	var s nvmeof.Subsystem
	switch {
	case f.nqn == "":
		return s, errors.New("--nqn is required")
	case len(f.hosts) == 0:
		return s, errors.New("--host is required: an export is never open to any host")
	case len(f.listen) == 0:
		return s, errors.New("--listen is required")
	}
	id := nvmeof.DeriveUUID(f.nqn, device)
	if f.uuid != "" {
		var err error
		if id, err = nvmeof.ParseUUID(f.uuid); err != nil {
			return s, fmt.Errorf("--uuid: %w", err)
		}
	}
	s = nvmeof.Subsystem{
		NQN: f.nqn, Serial: f.serial, Model: f.model, AllowedHosts: f.hosts,
		Namespaces: []nvmeof.Namespace{{NSID: 1, DevicePath: device, UUID: id, NGUID: id.NGUID()}},
	}
	if s.Serial == "" {
		s.Serial = nvmeof.DeriveSerial(f.nqn)
	}
	for _, text := range f.listen {
		l, err := nvmeof.ParseListener(text)
		if err != nil {
			return s, fmt.Errorf("--listen: %w", err)
		}
		s.Listeners = append(s.Listeners, l)
	}
	return s, s.Validate()
}

func (a *app) export(ctx context.Context, target nvmeof.Target, want nvmeof.Subsystem) error {
	device := want.Namespaces[0].DevicePath
	if a.where.Kind == KindKernel { // SPDK knows itself who has a bdev
		if err := a.Devices.Free(device); err != nil {
			return err
		}
		if err := a.exportedElsewhere(ctx, target, want.NQN, device); err != nil {
			return err
		}
	}
	report, err := target.Ensure(ctx, want)
	a.print(report)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s exports %s as %s\n", want.NQN, device, want.Namespaces[0].UUID)
	return nil
}

// exportedElsewhere finds the device under another path too, which the target
// itself does not compare: the kernel would export it twice.
func (a *app) exportedElsewhere(ctx context.Context, target nvmeof.Target, nqn, device string) error {
	id, err := a.Devices.ID(device)
	if err != nil {
		return err
	}
	states, err := target.List(ctx)
	if err != nil {
		return err
	}
	for _, s := range states {
		for _, ns := range s.Namespaces {
			if s.NQN == nqn || !filepath.IsAbs(ns.DevicePath) {
				continue
			}
			// A path that leads nowhere any more is not this device.
			if other, err := a.Devices.ID(ns.DevicePath); err == nil && other == id {
				return fmt.Errorf("%w: %s is %s in subsystem %s, namespace %d", nvmeof.ErrDeviceInUse, device, ns.DevicePath, s.NQN, ns.NSID)
			}
		}
	}
	return nil
}
