package report

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// sight is what a scan says of one serial number. Its methods are pure: they
// decide, and reconcile writes.
type sight struct {
	serial   string
	drives   []inventory.Drive // more than one: the serial is not unique
	problems []inventory.Problem
	complete bool
	all      []inventory.Problem // of the whole scan, for one that is not complete
	uses     []inventory.Use
	usesErr  error
	found    media.Finding
	timeouts int // probes in a row that timed out since found was seen
	survey   *survey
	// spdk tells that the drive is SPDK's, though the kernel may have it now.
	spdk bool
}

// sights groups a scan by serial number.
func sights(scan inventory.Scan) map[string]*sight {
	out := map[string]*sight{}
	get := func(serial string) *sight {
		s, ok := out[serial]
		if !ok {
			s = &sight{serial: serial, complete: scan.Complete, all: scan.Problems}
			out[serial] = s
		}
		return s
	}
	for _, d := range scan.Drives {
		s := get(d.Serial)
		s.drives = append(s.drives, d)
	}
	for _, p := range scan.Problems {
		if p.Serial != "" {
			s := get(p.Serial)
			s.problems = append(s.problems, p)
		}
	}
	return out
}

// single tells whether exactly one drive that works was seen.
func (s *sight) single() bool { return len(s.drives) == 1 && s.drives[0].State == inventory.StateLive }

// spec is the object's spec; it needs a drive.
func (s *sight) spec(node string) v1alpha1.NVMeDeviceSpec {
	d := s.drives[0]
	spec := v1alpha1.NVMeDeviceSpec{
		NodeName: node, PCIAddress: d.PCIAddress, SerialNumber: d.Serial, Model: d.Model,
		TotalCapacity: capacity.Allocatable(d.SizeBytes),
	}
	if d.NUMANode >= 0 {
		n := int32(d.NUMANode)
		spec.NUMANode = &n
	}
	return spec
}

// hardware is condition HardwareAvailable.
func (s *sight) hardware() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionHardwareAvailable, Status: metav1.ConditionFalse}
	switch {
	case len(s.drives) > 1:
		c.Reason, c.Message = v1alpha1.ReasonDuplicateSerial, fmt.Sprintf("more than one drive of this node reports serial number %q: %s", s.serial, messages(s.problems))
	case len(s.drives) == 1 && s.drives[0].ReadOnly:
		c.Reason, c.Message = v1alpha1.ReasonNoNamespace, "namespace 1 is read-only"
	case s.single():
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonDiscovered, "namespace 1 is "+s.drives[0].Name
	case len(s.problems) > 0:
		c.Reason, c.Message = v1alpha1.ReasonNoNamespace, messages(s.problems)
	case len(s.drives) == 1:
		c.Reason, c.Message = v1alpha1.ReasonNoNamespace, fmt.Sprintf("controller is %q, not live", s.drives[0].State)
	case s.complete:
		c.Reason, c.Message = v1alpha1.ReasonNotFound, "a complete scan of the node did not see the drive"
	default:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonScanDegraded
		c.Message = "the scan did not see the drive, and could not see everything: " + messages(s.all)
	}
	return c
}

// media is condition MediaUsable; false when nothing can be said.
func (s *sight) media() (metav1.Condition, bool) {
	if !s.single() {
		return metav1.Condition{}, false
	}
	c := metav1.Condition{Type: v1alpha1.ConditionMediaUsable, Status: metav1.ConditionFalse}
	switch {
	case s.usesErr != nil:
		c.Reason, c.Message = v1alpha1.ReasonProbeFailed, s.usesErr.Error()
	case len(s.uses) > 0:
		c.Reason, c.Message = v1alpha1.ReasonInUse, s.uses[0].String()
	case s.found.Verdict == media.Blank:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonBlank, s.found.Message+slowness(s.timeouts)
	case s.found.Verdict == media.Distort:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonOwnLabel, s.found.Message+slowness(s.timeouts)
	case s.found.Verdict == media.Blobstore && s.spdk:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonOwnLabel, s.found.Message+", and is SPDK's"
	case s.found.Verdict == media.Unreadable:
		c.Reason, c.Message = v1alpha1.ReasonProbeFailed, s.found.Message
	default:
		c.Reason, c.Message = v1alpha1.ReasonForeignSignature, s.found.Message
	}
	return c, true
}

// inventory tells whether the drive is inventory at all: one that the host uses is
// not, unless it was before (design.md §3).
func (s *sight) inventory() bool {
	return len(s.drives) > 0 && (len(s.uses) == 0 && s.usesErr == nil || len(s.drives) > 1)
}

// maxMessage bounds condition messages, which the API server does at 32 KiB.
const maxMessage = 1024

func messages(ps []inventory.Problem) string {
	var out string
	for i, p := range ps {
		if i > 0 {
			out += "; "
		}
		out += p.String()
	}
	if len(out) > maxMessage {
		out = out[:maxMessage] + " …"
	}
	return out
}
