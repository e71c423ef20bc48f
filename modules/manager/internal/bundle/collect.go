package bundle

import (
	"context"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// kind is what is packed of one kind.
type kind struct {
	file string
	list client.ObjectList
	// namespaced kinds are packed from the driver's namespace alone.
	namespaced bool
	// wanted picks from what is listed; nil is all.
	wanted func(runtime.Object) bool
}

// kinds are packed in this order: volumes before claims and events, which are
// picked by them.
func (p *packer) kinds() []kind {
	return []kind{
		{"nvmedevices", &v1alpha1.NVMeDeviceList{}, false, nil},
		{"nvmedeviceclaims", &v1alpha1.NVMeDeviceClaimList{}, false, nil},
		{"nvmepartitions", &v1alpha1.NVMePartitionList{}, false, nil},
		{"nvmevolumeattachments", &v1alpha1.NVMeVolumeAttachmentList{}, false, nil},
		{"rdmastoragenodes", &v1alpha1.RDMAStorageNodeList{}, false, nil},
		{"storagenodes", &v1alpha1.StorageNodeList{}, false, nil},
		{"volumes", &v1alpha1.VolumeList{}, false, nil},
		{"snapshots", &v1alpha1.SnapshotList{}, false, nil},
		{"volumeimports", &v1alpha1.VolumeImportList{}, false, nil},
		{"storageclasses", &storagev1.StorageClassList{}, false, p.ourClass},
		{"csidrivers", &storagev1.CSIDriverList{}, false, func(o runtime.Object) bool { return o.(*storagev1.CSIDriver).Name == v1alpha1.DriverName }},
		{"csinodes", &storagev1.CSINodeList{}, false, nil},
		{"persistentvolumes", &corev1.PersistentVolumeList{}, false, p.ourVolume},
		{"persistentvolumeclaims", &corev1.PersistentVolumeClaimList{}, false, p.ourClaim},
		{"volumeattachments", &storagev1.VolumeAttachmentList{}, false, func(o runtime.Object) bool {
			return o.(*storagev1.VolumeAttachment).Spec.Attacher == v1alpha1.DriverName
		}},
		{"nodes", &corev1.NodeList{}, false, nil},
		{"leases", &coordinationv1.LeaseList{}, true, nil},
		{"pods", &corev1.PodList{}, true, p.ourPod},
		{"events", &corev1.EventList{}, false, p.ourEvent},
	}
}

// collect packs the objects.
func (p *packer) collect(ctx context.Context) {
	p.volumes = map[string]bool{}
	for _, k := range p.kinds() {
		var options []client.ListOption
		if k.namespaced {
			options = append(options, client.InNamespace(p.Namespace))
		}
		if err := p.Reader.List(ctx, k.list, options...); err != nil {
			p.lacks(k.file, err)
			continue
		}
		var objects []runtime.Object
		if err := meta.EachListItem(k.list, func(o runtime.Object) error {
			if k.wanted == nil || k.wanted(o) {
				objects = append(objects, o)
			}
			return nil
		}); err != nil {
			p.lacks(k.file, err)
			continue
		}
		p.archive.objects("objects/"+k.file+".json", objects)
	}
}

// The names of classes and volumes, and the UIDs of claims, are remembered for
// what is picked by them.
func classKey(name string) string    { return "class/" + name }
func volumeKey(name string) string   { return "volume/" + name }
func claimKey(uid types.UID) string  { return "claim/" + string(uid) }
func (p *packer) keep(k string) bool { p.volumes[k] = true; return true }

func (p *packer) ourClass(o runtime.Object) bool {
	class := o.(*storagev1.StorageClass)
	return class.Provisioner == v1alpha1.DriverName && p.keep(classKey(class.Name))
}

func (p *packer) ourVolume(o runtime.Object) bool {
	v := o.(*corev1.PersistentVolume)
	return v.Spec.CSI != nil && v.Spec.CSI.Driver == v1alpha1.DriverName && p.keep(volumeKey(v.Name))
}

func (p *packer) ourClaim(o runtime.Object) bool {
	c := o.(*corev1.PersistentVolumeClaim)
	ours := p.volumes[volumeKey(c.Spec.VolumeName)] || c.Spec.StorageClassName != nil && p.volumes[classKey(*c.Spec.StorageClassName)]
	return ours && p.keep(claimKey(c.UID))
}

func (p *packer) ourPod(o runtime.Object) bool {
	p.pods = append(p.pods, *o.(*corev1.Pod))
	return true
}

// ourEvent picks what is about our objects and pods, about our claims, and what
// the kubelet and Kubernetes say of our volumes in others' pods.
func (p *packer) ourEvent(o runtime.Object) bool {
	e := o.(*corev1.Event)
	about := e.InvolvedObject
	switch {
	case e.Namespace == p.Namespace, strings.HasPrefix(about.APIVersion, v1alpha1.GroupVersion.Group+"/"),
		about.Kind == "Node", p.volumes[claimKey(about.UID)], p.volumes[volumeKey(about.Name)]:
		return true
	case !slices.Contains([]string{"FailedMount", "FailedMapVolume", "FailedAttachVolume", "SuccessfulAttachVolume"}, e.Reason):
		return false
	}
	for key := range p.volumes {
		if name, ok := strings.CutPrefix(key, "volume/"); ok && strings.Contains(e.Message, `"`+name+`"`) {
			return true
		}
	}
	return false
}
