package request

import (
	"errors"
	"unicode"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/volumecontext"
)

// maxName is the largest CreateVolumeRequest.name in bytes (CSI spec, "Size
// Limits").
const maxName = 128

// Defaults are what a request that does not say gets.
type Defaults struct {
	// Backend for a StorageClass without target-backend.
	Backend v1alpha1.TargetBackend
	// TopologyKey of the segment that holds the network domain.
	TopologyKey string
	// Namespace of the volumes that have one.
	Namespace string
}

// CreateVolume is a valid CreateVolumeRequest.
type CreateVolume struct {
	// Name is the request's, ObjectName that of the object it becomes.
	Name       string
	ObjectName string
	// Size in bytes, a multiple of capacity.Unit.
	Size int64
	// Kind of the object.
	Kind v1alpha1.VolumeKind
	// Backend and VolumeManager of an NVMePartition.
	Backend       v1alpha1.TargetBackend
	VolumeManager v1alpha1.VolumeManager
	// BlockSize in bytes and Compression of a Volume's zvol; zero leaves them to ZFS.
	BlockSize   int32
	Compression string
	Transport   v1alpha1.Transport
	// Access has a filesystem exactly if its type is mount.
	Access Access
	// Source is nil for a volume that begins empty.
	Source *Source
	// Topology is nil when any domain will do.
	Topology *v1alpha1.TopologyRequirement
	// Context is what the nodes are told.
	Context volumecontext.Context
}

// ParseCreateVolume validates the whole request; its errors are ErrInvalid or
// ErrOutOfRange, ErrNoSnapshot or ErrNoVolume.
func ParseCreateVolume(r *csi.CreateVolumeRequest, d Defaults) (CreateVolume, error) {
	if err := validateName(r.GetName()); err != nil {
		return CreateVolume{}, err
	}
	p, err := parseParameters(r.GetParameters(), d.Backend)
	if err != nil {
		return CreateVolume{}, err
	}
	if err := p.setMutable(r.GetMutableParameters()); err != nil {
		return CreateVolume{}, err
	}
	access, err := parseCapabilities(r.GetVolumeCapabilities())
	if err != nil {
		return CreateVolume{}, err
	}
	if access, err = p.complete(access); err != nil {
		return CreateVolume{}, err
	}
	for _, c := range r.GetVolumeCapabilities() {
		if _, err := filesystem.ParseMountOptions(filesystem.Type(access.Filesystem), c.GetMount().GetMountFlags()); err != nil {
			return CreateVolume{}, invalidf("mount_flags: %w", err)
		}
	}
	size, err := parseSize(r.GetCapacityRange())
	if err != nil {
		return CreateVolume{}, err
	}
	topology, err := parseTopology(r.GetAccessibilityRequirements(), d.TopologyKey)
	if err != nil {
		return CreateVolume{}, err
	}
	// A request that breaks a rule is told so, whether its source exists or not.
	if access.Mode == v1alpha1.ReadOnlyMany && r.GetVolumeContentSource() == nil {
		return CreateVolume{}, invalidf("access mode %s: a volume without volume_content_source is empty, and no node could ever write to this one", access.Mode)
	}
	source, err := parseSource(r.GetVolumeContentSource(), p.kind, d.Namespace)
	if err != nil {
		return CreateVolume{}, err
	}
	return CreateVolume{
		Source: source,
		Name:   r.GetName(), ObjectName: identity.VolumeName(r.GetName()), Size: size,
		Kind: p.kind, Backend: p.backend, VolumeManager: p.volumeManager, BlockSize: p.blockSize, Compression: p.compression, Transport: p.transport,
		Access: access, Topology: topology, Context: p.context,
	}, nil
}

// complete joins what the parameters and the capabilities say about the use.
func (p parameters) complete(a Access) (Access, error) {
	wanted, err := parseFilesystem(p.filesystem)
	if err != nil {
		return Access{}, err
	}
	switch {
	case a.Mode == v1alpha1.ReadWriteMany && !p.allowMultiWriter:
		return Access{}, invalidf("access mode %s: several nodes may write a raw block volume only if parameter %s is \"true\"", a.Mode, ParameterAllowMultiWriter)
	case a.Type == v1alpha1.AccessBlock && p.context.MkfsOptions != "":
		return Access{}, invalidf("parameter %s: a raw block volume has no filesystem", volumecontext.KeyMkfsOptions)
	case a.Type == v1alpha1.AccessBlock && p.context.CheckFilesystem:
		return Access{}, invalidf("parameter %s: a raw block volume has no filesystem", volumecontext.KeyCheckFilesystem)
	case a.Type == v1alpha1.AccessBlock:
		return a, nil
	case wanted != "" && a.Filesystem != "" && wanted != a.Filesystem:
		return Access{}, invalidf("parameter %s %q: volume_capabilities ask for %q", ParameterFilesystem, wanted, a.Filesystem)
	case a.Filesystem == "" && wanted != "":
		a.Filesystem = wanted
	case a.Filesystem == "":
		a.Filesystem = defaultFilesystem
	}
	if _, err := p.context.MkfsArguments(string(a.Filesystem)); err != nil {
		return Access{}, invalidf("parameter: %w", err)
	}
	return a, nil
}

func parseSize(r *csi.CapacityRange) (int64, error) {
	size, err := capacity.Resolve(r.GetRequiredBytes(), r.GetLimitBytes())
	switch {
	case errors.Is(err, capacity.ErrOutOfRange):
		return 0, errors.Join(ErrOutOfRange, err)
	case err != nil:
		return 0, invalidf("capacity_range: %w", err)
	}
	return size, nil
}

func validateName(name string) error {
	switch {
	case name == "":
		return invalidf("name is missing")
	case len(name) > maxName:
		return invalidf("name %s: at most %d bytes", shown(name), maxName)
	case !utf8.ValidString(name):
		return invalidf("name %s is not UTF-8", shown(name))
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return invalidf("name %s has control characters", shown(name))
		}
	}
	return nil
}

// Fingerprint is equal for a request and its retries and differs for another
// volume of the same name. Where the volume must be reachable from is not part
// of it: the domains of a cluster may change between retries, and whether the
// volume that exists suits them is a question to where it is. What only some kinds
// of volumes have is left out of those of the others.
func (c CreateVolume) Fingerprint() (string, error) {
	return handle.Fingerprint(struct {
		Size          int64                   `json:"size"`
		Backend       v1alpha1.TargetBackend  `json:"backend"`
		VolumeManager v1alpha1.VolumeManager  `json:"volumeManager"`
		Transport     v1alpha1.Transport      `json:"transport"`
		AccessType    v1alpha1.AccessType     `json:"accessType"`
		AccessMode    v1alpha1.AccessMode     `json:"accessMode"`
		Filesystem    v1alpha1.FilesystemType `json:"filesystem,omitempty"`
		BlockSize     int32                   `json:"blockSize,omitempty"`
		Compression   string                  `json:"compression,omitempty"`
		Source        string                  `json:"source,omitempty"`
		Context       map[string]string       `json:"context,omitempty"`
	}{
		Size: c.Size, Backend: c.Backend, VolumeManager: c.VolumeManager, Transport: c.Transport,
		AccessType: c.Access.Type, AccessMode: c.Access.Mode, Filesystem: c.Access.Filesystem,
		BlockSize: c.BlockSize, Compression: c.Compression, Source: c.sourceID(), Context: c.Context.Encode(),
	})
}

func (c CreateVolume) sourceID() string {
	if c.Source == nil {
		return ""
	}
	return c.Source.Handle.String()
}
