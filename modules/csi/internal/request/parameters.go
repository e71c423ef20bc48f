package request

import (
	"maps"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/volumecontext"
)

// StorageClass parameters (design.md §7). The connection parameters and
// mkfs-options are declared in package volumecontext.
const (
	// ParameterTargetBackend is what the volume is made of, and what exports it: kernel
	// (a partition), spdk (a logical volume) or zfs (a zvol).
	ParameterTargetBackend = "target-backend"
	// ParameterVolumeManager is what cuts a drive: partition or lvol, which follows from
	// the backend.
	ParameterVolumeManager = "volume-manager"
	// ParameterTransport is rdma, the default, or tcp.
	ParameterTransport = "transport"
	// ParameterSPDKCoreMask is refused: a node has one target, whose cores the chart
	// names.
	ParameterSPDKCoreMask = "spdk-core-mask"
	// ParameterFilesystem is ext4, the default, or xfs.
	ParameterFilesystem = "csi.storage.k8s.io/fstype"
	// ParameterPool is refused: volumes are placed on any pool that a StorageNode
	// declares.
	ParameterPool = "pool"
	// ParameterBlockSize is the volblocksize of a zvol in bytes, a power of two.
	ParameterBlockSize = "blocksize"
	// ParameterCompression is a zvol's, such as lz4, zstd-3 or off.
	ParameterCompression = "compression"
	// ParameterNFSCIDRs is refused: this version exports nothing over NFS.
	ParameterNFSCIDRs = "nfs-export-cidrs"
	// ParameterNFSAccessMode is refused: this version exports nothing over NFS.
	ParameterNFSAccessMode = "nfs-access-mode"
	// ParameterNFSRootSquash is refused: this version exports nothing over NFS.
	ParameterNFSRootSquash = "nfs-root-squash"
	// ParameterAllowMultiWriter "true" is how a StorageClass asks for raw block
	// volumes that several nodes write at once (design.md §6).
	ParameterAllowMultiWriter = "allow-multi-writer"
)

const (
	backendZFS       = "zfs"
	transportNFS     = "nfs"
	defaultTransport = v1alpha1.TransportRDMA
)

// sidecarKeys are added by external-provisioner --extra-create-metadata. They
// change nothing about the volume.
var sidecarKeys = []string{
	"csi.storage.k8s.io/pvc/name",
	"csi.storage.k8s.io/pvc/namespace",
	"csi.storage.k8s.io/pv/name",
}

// owners names, for each parameter that not every backend has, the backend
// that it belongs to.
var owners = map[string]string{
	ParameterSPDKCoreMask:  string(v1alpha1.BackendSPDK),
	ParameterPool:          backendZFS,
	ParameterBlockSize:     backendZFS,
	ParameterCompression:   backendZFS,
	ParameterNFSCIDRs:      backendZFS,
	ParameterNFSAccessMode: backendZFS,
	ParameterNFSRootSquash: backendZFS,
}

// ParameterKeys lists every parameter that a StorageClass may have.
func ParameterKeys() []string {
	keys := append(volumecontext.Keys(),
		ParameterTargetBackend, ParameterVolumeManager, ParameterTransport,
		ParameterFilesystem, ParameterAllowMultiWriter)
	keys = slices.AppendSeq(keys, maps.Keys(owners))
	slices.Sort(keys)
	return keys
}

// parameters are the parameters of a StorageClass as values.
type parameters struct {
	// kind of the volumes, and what exports them.
	kind             v1alpha1.VolumeKind
	backend          v1alpha1.TargetBackend
	volumeManager    v1alpha1.VolumeManager
	blockSize        int32
	compression      string
	transport        v1alpha1.Transport
	filesystem       string
	allowMultiWriter bool
	context          volumecontext.Context
}

func parseParameters(values map[string]string, defaultBackend v1alpha1.TargetBackend) (parameters, error) {
	if err := refuseUnknown(values); err != nil {
		return parameters{}, err
	}
	p := parameters{
		kind:       v1alpha1.KindNVMePartition,
		backend:    defaultBackend,
		transport:  defaultTransport,
		filesystem: values[ParameterFilesystem],
	}
	if err := p.setBackend(values); err != nil {
		return parameters{}, err
	}
	if err := p.setTransport(values); err != nil {
		return parameters{}, err
	}
	carve := p.setVolumeManager
	if p.kind == v1alpha1.KindVolume {
		carve = p.setZvol
	}
	if err := carve(values); err != nil {
		return parameters{}, err
	}
	switch v, given := values[ParameterAllowMultiWriter]; {
	case !given, v == "false":
	case v == "true":
		p.allowMultiWriter = true
	default:
		return parameters{}, invalidf("parameter %s %s: want \"true\" or \"false\"", ParameterAllowMultiWriter, shown(v))
	}
	own := map[string]string{}
	for _, key := range volumecontext.Keys() {
		if v, given := values[key]; given {
			own[key] = v
		}
	}
	var err error
	if p.context, err = volumecontext.Decode(own); err != nil {
		return parameters{}, invalidf("parameters: %w", err)
	}
	return p, nil
}

// backendName is the value of target-backend.
func (p *parameters) backendName() string {
	if p.kind == v1alpha1.KindVolume {
		return backendZFS
	}
	return string(p.backend)
}

// setBackend refuses what no backend of this version can serve, before
// anything is made. Whether a node serves the backend, placement tells.
func (p *parameters) setBackend(values map[string]string) error {
	value, given := values[ParameterTargetBackend]
	if !given {
		value = string(p.backend)
	}
	switch value {
	case string(v1alpha1.BackendKernel):
		p.backend = v1alpha1.BackendKernel
	case backendZFS:
		// Zvols are exported by the kernel.
		p.kind, p.backend = v1alpha1.KindVolume, v1alpha1.BackendKernel
	case string(v1alpha1.BackendSPDK):
		p.backend = v1alpha1.BackendSPDK
	default:
		return invalidf("parameter %s %s: want %q, %q or %q", ParameterTargetBackend, shown(value), v1alpha1.BackendKernel, v1alpha1.BackendSPDK, backendZFS)
	}
	for _, key := range slices.Sorted(maps.Keys(owners)) {
		if v, set := values[key]; set && owners[key] != value {
			return invalidf("parameter %s %s: belongs to %s %q, not %q", key, shown(v), ParameterTargetBackend, owners[key], value)
		}
	}
	if v, given := values[ParameterSPDKCoreMask]; given {
		return invalidf("parameter %s %s: this version has one target for each node, whose cores are those that it was started with", ParameterSPDKCoreMask, shown(v))
	}
	return nil
}

func (p *parameters) setTransport(values map[string]string) error {
	switch value, given := values[ParameterTransport]; {
	case !given:
	case value == string(v1alpha1.TransportRDMA), value == string(v1alpha1.TransportTCP):
		p.transport = v1alpha1.Transport(value)
	case value == transportNFS && p.kind == v1alpha1.KindVolume:
		return invalidf("parameter %s %q: this version exports no datasets, only zvols over %q or %q", ParameterTransport, value, v1alpha1.TransportRDMA, v1alpha1.TransportTCP)
	case value == transportNFS:
		return invalidf("parameter %s %q: needs %s %q, not %q", ParameterTransport, value, ParameterTargetBackend, backendZFS, p.backend)
	default:
		return invalidf("parameter %s %s: want %q or %q", ParameterTransport, shown(value), v1alpha1.TransportRDMA, v1alpha1.TransportTCP)
	}
	return nil
}

func (p *parameters) setVolumeManager(values map[string]string) error {
	p.volumeManager = v1alpha1.VolumeManagerPartition
	if v, given := values[ParameterVolumeManager]; given && v != string(p.volumeManager) {
		return invalidf("parameter %s %s: want %q", ParameterVolumeManager, shown(v), p.volumeManager)
	}
	return nil
}

// refuseUnknown names the key and never its value: what somebody put under a
// key that is not ours may be a secret.
func refuseUnknown(values map[string]string) error {
	known := ParameterKeys()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(known, key) || slices.Contains(sidecarKeys, key) {
			continue
		}
		if near := nearest(key, known); near != "" {
			return invalidf("unknown parameter %s: did you mean %q?", shown(key), near)
		}
		return invalidf("unknown parameter %s: want one of %s", shown(key), strings.Join(known, ", "))
	}
	return nil
}
