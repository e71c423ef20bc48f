package request

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// defaultFilesystem is made when neither StorageClass nor capability names one.
const defaultFilesystem = v1alpha1.Ext4

// Access is how a volume is to be used.
type Access struct {
	Type v1alpha1.AccessType
	Mode v1alpha1.AccessMode
	// Filesystem is empty where the request leaves it open, and for block.
	Filesystem v1alpha1.FilesystemType
}

// modes are the access modes that can be served at all.
var modes = map[csi.VolumeCapability_AccessMode_Mode]v1alpha1.AccessMode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        v1alpha1.ReadWriteOnce,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  v1alpha1.ReadWriteOnce,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: v1alpha1.ReadWriteOncePod,
	csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    v1alpha1.ReadOnlyMany,
	csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:   v1alpha1.ReadWriteMany,
}

// SingleNode tells whether at most one node may have the volume at a time.
func SingleNode(m v1alpha1.AccessMode) bool {
	return m == v1alpha1.ReadWriteOnce || m == v1alpha1.ReadWriteOncePod
}

// ParseCapability reads one capability.
func ParseCapability(c *csi.VolumeCapability) (Access, error) {
	if c == nil {
		return Access{}, invalidf("volume_capability is missing")
	}
	mode := c.GetAccessMode().GetMode()
	a := Access{Mode: modes[mode]}
	if a.Mode == "" {
		return Access{}, invalidf("access mode %s: not served", mode)
	}
	switch {
	case c.GetBlock() != nil && a.Mode == v1alpha1.ReadOnlyMany:
		return Access{}, invalidf("access mode %s with access type block: nothing keeps a pod from writing to a raw device", mode)
	case c.GetBlock() != nil:
		a.Type = v1alpha1.AccessBlock
		return a, nil
	case c.GetMount() == nil:
		return Access{}, invalidf("volume_capability has neither access type mount nor block")
	}
	a.Type = v1alpha1.AccessMount
	if a.Mode == v1alpha1.ReadWriteMany {
		return Access{}, invalidf("access mode %s with access type mount: a filesystem has one writer; use access type block", mode)
	}
	var err error
	a.Filesystem, err = parseFilesystem(c.GetMount().GetFsType())
	return a, err
}

// parseCapabilities reads what a new volume must be able to do, which has to be
// one thing: its way of use decides what is made.
func parseCapabilities(all []*csi.VolumeCapability) (Access, error) {
	if len(all) == 0 {
		return Access{}, invalidf("volume_capabilities are missing")
	}
	var sum Access
	for i, c := range all {
		a, err := ParseCapability(c)
		if err != nil {
			return Access{}, err
		}
		switch {
		case i == 0:
			sum = a
			continue
		case a.Type != sum.Type:
			return Access{}, invalidf("volume_capabilities ask for access types %s and %s: a volume has one", sum.Type, a.Type)
		case sum.Filesystem != "" && a.Filesystem != "" && a.Filesystem != sum.Filesystem:
			return Access{}, invalidf("volume_capabilities ask for filesystems %s and %s: a volume has one", sum.Filesystem, a.Filesystem)
		case a.Mode != sum.Mode && (!SingleNode(a.Mode) || !SingleNode(sum.Mode)):
			return Access{}, invalidf("volume_capabilities ask for access modes %s and %s: writers of one node and users of many cannot share a volume", sum.Mode, a.Mode)
		case a.Mode == v1alpha1.ReadWriteOnce:
			// The wider of the two single-node modes.
			sum.Mode = a.Mode
		}
		if sum.Filesystem == "" {
			sum.Filesystem = a.Filesystem
		}
	}
	return sum, nil
}

func parseFilesystem(name string) (v1alpha1.FilesystemType, error) {
	switch f := v1alpha1.FilesystemType(name); f {
	case "", v1alpha1.Ext4, v1alpha1.XFS:
		return f, nil
	default:
		return "", invalidf("filesystem %s: want %q or %q", shown(name), v1alpha1.Ext4, v1alpha1.XFS)
	}
}

// Suits tells why a volume that was made for one way of use cannot be used in
// another; its errors are ErrInvalid.
func (a Access) Suits(volume v1alpha1.Slice) error {
	made := Access{Type: volume.GetAccessType(), Mode: volume.GetAccessMode(), Filesystem: volume.GetFilesystem()}
	switch {
	case a.Type != made.Type:
		return invalidf("access type %s: the volume was made for %s", a.Type, made.Type)
	case a.Filesystem != "" && a.Filesystem != made.Filesystem:
		return invalidf("filesystem %s: the volume was made for %s", a.Filesystem, made.Filesystem)
	case SingleNode(a.Mode) != SingleNode(made.Mode), !SingleNode(a.Mode) && a.Mode != made.Mode:
		return invalidf("access mode %s: the volume was made for %s", a.Mode, made.Mode)
	}
	return nil
}
