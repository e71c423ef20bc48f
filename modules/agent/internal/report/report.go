// Package report publishes what a storage node has: an NVMeDevice for each local
// drive, the node's RDMAStorageNode, and the Lease that says the agent is alive.
//
// It looks at the hardware from time to time and when the kernel reports a
// change, and writes only what is different (design.md §9). What an incomplete
// scan does not see is not taken for absent: such a drive becomes Unknown.
package report

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/jitter"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Times of the reporter. A scan is due between half of ScanPeriod and all of it;
// status is written at least once in StatusPeriod (design.md §9).
const (
	ScanPeriod   = time.Minute
	StatusPeriod = 5 * time.Minute
	// mediaPeriod is how often a drive of ours is probed for damage; one that is not
	// ours yet is probed with every scan, but not more often than mediaPause.
	mediaPeriod = 5 * time.Minute
	mediaPause  = 20 * time.Second
	// scanTimeout bounds one scan and its probes, probeTimeout each look at one
	// medium.
	scanTimeout  = time.Minute
	probeTimeout = 15 * time.Second
)

// Inventory is the hardware of this node (inventory.Reader).
type Inventory interface {
	Scan(ctx context.Context) inventory.Scan
	Portals(ctx context.Context) inventory.PortalScan
	Uses(device string) ([]inventory.Use, error)
}

// Prober says what is on a drive (media.Prober).
type Prober interface {
	Probe(ctx context.Context, d inventory.Drive) media.Finding
}

// Surveyor says what the drives' tables hold (carve.VolumeManager).
type Surveyor interface {
	Survey(ctx context.Context, d inventory.Drive, blank bool) (carve.Survey, error)
	Changes(serial string) uint64
}

// Config is what a Reporter needs. All fields but SPDK, Delay and Now are
// required.
type Config struct {
	// Client reads from a cache that holds this node's objects and has the index of
	// volume.IndexPartitions, and writes.
	Client   client.Client
	NodeName string
	Hardware Inventory
	Media    Prober
	Tables   Surveyor
	// Strangers are what the target has although no object asks for it; false when
	// nobody has looked yet (volume.Check).
	Strangers func() ([]string, bool)
	// Unseen says what of the target nobody can see on this node; empty when all of it
	// is seen.
	Unseen func() string
	// SPDK is condition SPDKReady; nil on a node without SPDK.
	SPDK func(context.Context) metav1.Condition
	// Ready tells whether every target of the node was looked at since the agent
	// started (volume.Gate).
	Ready func() bool
	// TCPPort and RDMAPort are where the node's targets listen.
	TCPPort, RDMAPort int32
	// Delay is the time to the next scan; nil means half to all of ScanPeriod.
	Delay func() time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Reporter is a reconciler with a single request: this node.
type Reporter struct {
	Config
	// By serial number.
	probes  map[string]probe
	surveys map[string]survey
}

// New returns a Reporter.
func New(c Config) (*Reporter, error) {
	if c.Client == nil || c.NodeName == "" || c.Hardware == nil || c.Media == nil || c.Tables == nil || c.Strangers == nil || c.Unseen == nil || c.Ready == nil {
		return nil, errors.New("reporter: client, node name, hardware, media, tables, strangers, unseen and ready must all be set")
	}
	if c.TCPPort < 1 || c.TCPPort > 65535 || c.RDMAPort < 1 || c.RDMAPort > 65535 || c.TCPPort == c.RDMAPort {
		return nil, fmt.Errorf("reporter: TCP port %d and RDMA port %d must differ and lie in 1 to 65535", c.TCPPort, c.RDMAPort)
	}
	if c.Delay == nil {
		c.Delay = jitter.HalfToFull(ScanPeriod)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Reporter{Config: c, probes: map[string]probe{}, surveys: map[string]survey{}}, nil
}

// request is the only one there is.
func (r *Reporter) request() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: r.NodeName}}
}

// Reconcile looks at the node and writes what changed.
func (r *Reporter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req != r.request() {
		return reconcile.Result{}, nil
	}
	scanCtx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	scan := r.Hardware.Scan(scanCtx)
	portals := r.Hardware.Portals(scanCtx)
	err := errors.Join(r.reportDrives(ctx, scanCtx, scan), r.reportNode(ctx, scanCtx, scan, portals))
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		// The cache does not show yet what was written; it will.
		log.FromContext(ctx).V(1).Info("inventory changed while it was written", "reason", err.Error())
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.Delay()}, nil
}

// ownDevices returns the objects of this node's drives, by serial number.
func (r *Reporter) ownDevices(ctx context.Context) (map[string]*v1alpha1.NVMeDevice, error) {
	var all v1alpha1.NVMeDeviceList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list NVMeDevices: %w", err)
	}
	out := map[string]*v1alpha1.NVMeDevice{}
	for i := range all.Items {
		if d := &all.Items[i]; d.Spec.NodeName == r.NodeName {
			out[d.Spec.SerialNumber] = d
		}
	}
	return out, nil
}

var _ reconcile.Reconciler = (*Reporter)(nil)
