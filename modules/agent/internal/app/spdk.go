package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/report"
	"github.com/distort-io/distort/modules/agent/internal/spdkdrive"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
	"github.com/distort-io/distort/modules/nvmeof/spdk/supervisor"
)

// SPDK is what the agent needs of a node to serve volumes with SPDK.
type SPDK struct {
	Client *rpc.Client
	Bus    *pci.Bus
	Kernel spdkdrive.Kernel
	// Run runs the target until its context ends; nil: somebody else runs it.
	Run func(context.Context) error
	// Refused is why the target is not run although it should be.
	Refused error
	// Plan is what a target that somebody else runs is to have room for.
	Plan spdkdrive.Plan

	// ended is why a target that was run is not any more.
	ended atomic.Pointer[error]
}

// openSPDK returns nil where no flag asks for SPDK.
func openSPDK(o Options, kernel spdkdrive.Kernel, logger logr.Logger) (*SPDK, error) {
	if o.SPDK.Socket == "" {
		return nil, nil
	}
	s := &SPDK{Client: rpc.New(o.SPDK.Socket), Bus: pci.New(pci.OS(o.SysfsRoot)), Kernel: kernel, Plan: o.SPDK.Plan}
	if o.SPDK.Target == "" {
		return s, nil
	}
	// Only root may speak with the target.
	if err := os.MkdirAll(filepath.Dir(o.SPDK.Socket), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of SPDK's socket: %w", err)
	}
	// A target that would not fit is no end of the agent, which serves the kernel's
	// volumes too: condition SPDKReady says it.
	if s.Refused = o.SPDK.Plan.Admit(s.Bus); s.Refused == nil {
		s.Run = func(ctx context.Context) error { return supervisor.Run(ctx, o.SPDK.target()) }
	} else {
		logger.Error(s.Refused, "SPDK is not started")
	}
	return s, nil
}

// target is how the agent runs one.
func (o SPDKOptions) target() supervisor.Config {
	c := supervisor.Config{
		Program: o.Target, Socket: o.Socket, CoreMask: o.Plan.CoreMask, MemoryMiB: o.Plan.MemoryMiB, Log: os.Stderr,
		Options: []supervisor.Option{{Method: "iobuf_set_options", Params: struct {
			Small int `json:"small_pool_count"`
			Large int `json:"large_pool_count"`
		}{o.Plan.SmallBuffers, o.Plan.LargeBuffers}}},
	}
	if o.InterruptMode {
		c.Args = append(c.Args, "--interrupt-mode")
	}
	return c
}

// backends are the node as the controllers see it: of each backend what exports, what
// carves, and what tells of drives.
type backends struct {
	hardware Hardware
	prober   report.Prober
	tables   report.Surveyor
	exports  export.Backends
	carvers  volume.Locators
}

// newBackends puts the backends of the host together.
func newBackends(host Host, cache client.Reader) (backends, error) {
	kernel := export.NewKernel(host.Target)
	if host.SPDK == nil {
		return backends{
			hardware: host.Hardware, prober: host.Media, tables: host.Manager, exports: export.NewBackends(kernel),
			carvers: volume.Locators{v1alpha1.BackendKernel: volume.NewLocator(host.Hardware, host.Manager)},
		}, nil
	}
	drives, err := spdkdrive.New(spdkdrive.Config{
		Kernel: host.SPDK.Kernel, Bus: host.SPDK.Bus, Prober: host.Media, Client: host.SPDK.Client, Known: volume.KnownDrives(cache),
	})
	if err != nil {
		return backends{}, err
	}
	return backends{
		hardware: drives, prober: drives, tables: surveyors{host.Manager, drives},
		exports: export.NewBackends(kernel, export.NewSPDK(spdk.New(host.SPDK.Client))),
		carvers: volume.Locators{v1alpha1.BackendKernel: volume.NewLocator(drives, host.Manager), v1alpha1.BackendSPDK: volume.NewLvols(drives)},
	}, nil
}

// surveyors look at the table or the store of a drive, as who has it keeps one.
type surveyors struct {
	kernel carve.VolumeManager
	spdk   *spdkdrive.Host
}

func (s surveyors) Survey(ctx context.Context, d inventory.Drive, blank bool) (carve.Survey, error) {
	if d.Bdev != "" {
		return s.spdk.Survey(ctx, d)
	}
	return s.kernel.Survey(ctx, d, blank)
}

func (s surveyors) Changes(serial string) uint64 {
	return s.kernel.Changes(serial) + s.spdk.Changes(serial)
}

// condition is SPDKReady.
func (s *SPDK) condition(ctx context.Context) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSPDKReady, Status: metav1.ConditionFalse}
	if s.Refused != nil {
		c.Reason, c.Message = v1alpha1.ReasonAdmissionRefused, s.Refused.Error()
		return c
	}
	if ended := s.ended.Load(); ended != nil {
		c.Reason, c.Message = v1alpha1.ReasonTargetUnavailable, (*ended).Error()
		return c
	}
	version, err := s.Client.Version(ctx)
	if err != nil {
		c.Reason, c.Message = v1alpha1.ReasonTargetUnavailable, err.Error()
		return c
	}
	if s.Run == nil {
		switch err := s.Plan.AdmitRunning(ctx, s.Client); {
		case errors.Is(err, spdkdrive.ErrRefused):
			c.Reason, c.Message = v1alpha1.ReasonAdmissionRefused, err.Error()
			return c
		case err != nil:
			c.Reason, c.Message = v1alpha1.ReasonTargetUnavailable, err.Error()
			return c
		}
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonTargetAnswers, "SPDK "+version.String()
	return c
}

// run runs the target, if that is the agent's. That it cannot be run is no end of the
// agent, which serves the kernel's volumes too.
func (s *SPDK) run(ctx context.Context) error {
	if s.Run == nil {
		return nil
	}
	if err := s.Run(ctx); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "SPDK's target is not run any more")
		s.ended.Store(&err)
	}
	return nil
}

// answerPause is the time between two looks whether a target that went has come back;
// there is no event for that.
const answerPause = time.Second

// watch calls again each time another process answers than before: it has forgotten
// all exports.
func (s *SPDK) watch(ctx context.Context, again func()) error {
	logger := log.FromContext(ctx).WithName("spdk")
	for ctx.Err() == nil {
		if s.Client.Wait(ctx) == nil {
			logger.Info("SPDK hung up")
		}
		if wait.PollUntilContextCancel(ctx, answerPause, true, s.answers) == nil {
			logger.Info("SPDK answers")
			again()
		}
	}
	return nil
}

func (s *SPDK) answers(ctx context.Context) (bool, error) {
	_, err := s.Client.Version(ctx)
	return err == nil, nil
}

var errManagedOnly = errors.New("needs --spdk-target: the agent does not start a target that somebody else runs")
