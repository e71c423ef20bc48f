package node

import (
	"context"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/inflight"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

// Initiator connects to subsystems and finds devices; initiator.Initiator is
// one.
type Initiator interface {
	Connect(ctx context.Context, t initiator.Target) error
	Maintain(ctx context.Context, t initiator.Target) error
	Find(ctx context.Context, id initiator.Identity) (initiator.Device, error)
	Look(id initiator.Identity) (initiator.Device, []initiator.Path, error)
	Paths(hostNQN string) ([]initiator.Path, error)
	Resize(ctx context.Context, id initiator.Identity, atLeast int64) (initiator.Device, error)
	Hold(ctx context.Context, d initiator.Device) (io.Closer, error)
	FailFast(ctx context.Context, hostNQN string) (int, error)
	Disconnect(ctx context.Context, nqn string) error
	Owner(number blockdev.Number) (nqn string, found bool, err error)
	Blocks(nqn string) ([]initiator.Block, error)
}

// Filesystems probes, formats, checks, mounts and grows; filesystem.Host is one.
type Filesystems interface {
	formatonce.Filesystems
	Mounts() ([]filesystem.Mount, error)
	MountsAt(path string) ([]filesystem.Mount, error)
	MountDevice(ctx context.Context, device string, is func(blockdev.Number) bool, target string, t filesystem.Type, o filesystem.MountOptions) error
	Bind(ctx context.Context, source, target string, readOnly bool) error
	SetReadOnly(ctx context.Context, device string, readOnly bool) error
	BindDevice(ctx context.Context, device string, is func(blockdev.Number) bool, target string) error
	Unmount(ctx context.Context, target string) error
	Check(ctx context.Context, device string, t filesystem.Type) error
	Grow(ctx context.Context, m filesystem.Mount, deviceSize int64) (int64, error)
	Usage(ctx context.Context, path string) (filesystem.Usage, error)
	Errors(m filesystem.Mount) (int64, error)
	MakeDir(path string) error
	MakeFile(path string) error
	Remove(path string) error
}

// Records keeps staging records; staging.Store is one.
type Records interface {
	Save(r staging.Record) error
	Load(handle string) (staging.Record, bool, error)
	List() ([]staging.Record, error)
	Delete(handle string) error
}

// Options configure a Server. NodeID and the interfaces are required.
type Options struct {
	// NodeID is the CSI node ID, the name of the Kubernetes node. Host NQN and
	// host ID follow from it (identity.HostNQN, identity.HostID).
	NodeID string
	// Topology is this node's place, for example {key: network domain}.
	Topology map[string]string
	// MaxVolumes is how many volumes the node takes; 0 means no limit.
	MaxVolumes int64

	Initiator   Initiator
	Filesystems Filesystems
	Records     Records
	// Recorder keeps the format records in the control plane.
	Recorder formatonce.Recorder

	// Timeout bounds an RPC whose caller sets no deadline, or a later one; 0
	// means 2 min, which is kubelet's.
	Timeout time.Duration
	// Now is the clock of the filesystem records; nil means time.Now.
	Now func() time.Time
	// Log gets what goes wrong beside an answer; the zero Logger discards it.
	Log logr.Logger
}

// Server implements csi.NodeServer.
type Server struct {
	csi.UnimplementedNodeServer

	nodeID          string
	hostNQN, hostID string
	topology        map[string]string
	maxVolumes      int64
	initiator       Initiator
	filesystems     Filesystems
	records         Records
	recorder        formatonce.Recorder
	formatter       *formatonce.Formatter
	now             func() time.Time
	timeout         time.Duration
	log             logr.Logger
	busy            inflight.Set
}

var _ csi.NodeServer = (*Server)(nil)

// New returns a server, or what is missing in the options.
func New(o Options) (*Server, error) {
	switch {
	case o.NodeID == "":
		return nil, fmt.Errorf("node service: no node ID")
	case o.Initiator == nil, o.Filesystems == nil, o.Records == nil, o.Recorder == nil:
		return nil, fmt.Errorf("node service: initiator, filesystems, records and recorder are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{
		nodeID: o.NodeID, hostNQN: identity.HostNQN(o.NodeID), hostID: identity.HostID(o.NodeID),
		topology: maps.Clone(o.Topology), maxVolumes: o.MaxVolumes,
		initiator: o.Initiator, filesystems: o.Filesystems, records: o.Records,
		recorder: o.Recorder, formatter: formatonce.New(o.Filesystems, o.Recorder, o.Now), now: o.Now,
		timeout: o.Timeout, log: o.Log,
	}
	if s.timeout <= 0 {
		s.timeout = 2 * time.Minute
	}
	if s.log.GetSink() == nil {
		s.log = logr.Discard()
	}
	return s, nil
}

// begin takes the volume and bounds the RPC. Whoever gets a nil error calls
// done.
func (s *Server) begin(ctx context.Context, volumeID string) (context.Context, func(), error) {
	release, ok := s.busy.TryAcquire(volumeID)
	if !ok {
		return nil, nil, refusef(codes.Aborted, "another operation on volume %s is running", volumeID)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	return ctx, func() { cancel(); release() }, nil
}
