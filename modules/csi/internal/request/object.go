package request

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// protocols are the transports as a Volume names them.
var protocols = map[v1alpha1.Transport]v1alpha1.EndpointProtocol{
	v1alpha1.TransportTCP: v1alpha1.ProtocolNVMeTCP, v1alpha1.TransportRDMA: v1alpha1.ProtocolNVMeRDMA,
}

// Object is the one that asks for the volume, without a namespace.
func (c CreateVolume) Object() (v1alpha1.Slice, error) {
	fingerprint, err := c.Fingerprint()
	if err != nil {
		return nil, err
	}
	named := metav1.ObjectMeta{Name: c.ObjectName}
	if c.Kind == v1alpha1.KindVolume {
		v := &v1alpha1.Volume{ObjectMeta: named, Spec: v1alpha1.VolumeSpec{
			Type:               v1alpha1.VolumeBlock,
			Capacity:           c.Size,
			Transport:          protocols[c.Transport],
			AccessMode:         c.Access.Mode,
			FSType:             c.Access.Filesystem,
			VolBlockSize:       c.BlockSize,
			Compression:        c.Compression,
			Provenance:         v1alpha1.ProvenanceDynamic,
			DeletionPolicy:     v1alpha1.DeletionDelete,
			Topology:           c.Topology,
			RequestFingerprint: fingerprint,
		}}
		if c.Source != nil {
			switch h := c.Source.Handle; h.Kind {
			case handle.Snapshot:
				v.Spec.SourceSnapshot = &v1alpha1.SnapshotReference{Name: h.Name, UID: types.UID(h.UID)}
			case handle.Volume:
				v.Spec.SourceVolume = &v1alpha1.VolumeReference{Kind: v1alpha1.KindVolume, Name: h.Name, UID: types.UID(h.UID)}
			}
		}
		return v, nil
	}
	return &v1alpha1.NVMePartition{ObjectMeta: named, Spec: v1alpha1.NVMePartitionSpec{
		Size:               c.Size,
		TargetBackend:      c.Backend,
		VolumeManager:      c.VolumeManager,
		Transport:          c.Transport,
		AccessMode:         c.Access.Mode,
		AccessType:         c.Access.Type,
		Filesystem:         c.Access.Filesystem,
		RequestFingerprint: fingerprint,
		Topology:           c.Topology,
	}}, nil
}
