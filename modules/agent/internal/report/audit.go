package report

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/agent/internal/audit"
	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// survey is a remembered comparison of a drive's table with the objects. It is
// made again when this agent has changed the table, and with each new look at the
// medium.
type survey struct {
	changes     uint64
	probed      time.Time
	condition   metav1.Condition
	largestFree int64
}

// survey adds what the table of a usable drive holds. When it cannot be read now,
// what was seen last stays.
func (r *Reporter) survey(ctx context.Context, s *sight) {
	usable := s.found.Verdict == media.Blank || s.found.Verdict == media.Distort
	if !s.single() || !usable {
		return
	}
	d := s.drives[0]
	p, changes := r.probes[d.Serial], r.Tables.Changes(d.Serial)
	last, ok := r.surveys[d.Serial]
	if ok {
		s.survey = &last
	}
	if ok && last.changes == changes && last.probed.Equal(p.at) || p.timeouts > 0 {
		return
	}
	found, err := r.look(ctx, s)
	if err != nil {
		log.FromContext(ctx).Info("table of the drive could not be compared with the partitions", "serial", d.Serial, "reason", err.Error())
		return
	}
	found.changes, found.probed = changes, p.at
	r.surveys[d.Serial] = found
	s.survey = &found
}

// look reads the table between two looks at the objects: what is made or deleted
// meanwhile is neither a stranger nor missing.
func (r *Reporter) look(ctx context.Context, s *sight) (survey, error) {
	before, err := r.partitionsOf(ctx, s.serial)
	if err != nil {
		return survey{}, err
	}
	table, err := r.Tables.Survey(ctx, s.drives[0], s.found.Verdict == media.Blank)
	if err != nil {
		return survey{}, err
	}
	after, err := r.partitionsOf(ctx, s.serial)
	if err != nil {
		return survey{}, err
	}
	strangers, missing := compare(table, before, after)
	return survey{condition: audit.Condition(v1alpha1.ConditionAudited, strangers, missing), largestFree: table.LargestFree}, nil
}

// partitionsOf returns the partitions on a drive, by UID.
func (r *Reporter) partitionsOf(ctx context.Context, serial string) (map[types.UID]v1alpha1.NVMePartition, error) {
	all, err := volume.OnDrive(ctx, r.Client, serial)
	if err != nil {
		return nil, err
	}
	out := map[types.UID]v1alpha1.NVMePartition{}
	for _, p := range all {
		if p.Spec.NodeName == r.NodeName {
			out[p.UID] = p
		}
	}
	return out, nil
}

// compare is the audit of one table. It is pure.
func compare(table carve.Survey, before, after map[types.UID]v1alpha1.NVMePartition) (strangers, missing []string) {
	known := map[string]bool{}
	for _, objects := range []map[types.UID]v1alpha1.NVMePartition{before, after} {
		for _, p := range objects {
			known[volume.SliceUUID(&p)] = true
			if p.Spec.TargetBackend == v1alpha1.BackendSPDK && !volume.Carved(&p) {
				known[identity.ExternalID(string(p.UID))] = true // its UUID is to be recorded
			}
		}
	}
	there := map[string]bool{}
	for _, v := range table.Volumes {
		there[v.UUID] = true
		if !known[v.UUID] && (v.StoreUUID == "" || !known[v.Name]) {
			strangers = append(strangers, fmt.Sprintf("%s %s (%s)", kindOf(v), v.UUID, v.Name))
		}
	}
	for _, o := range table.Others {
		strangers = append(strangers, "partition "+o)
	}
	for uid, p := range before {
		_, still := after[uid]
		if uuid := volume.SliceUUID(&p); still && volume.Carved(&p) && p.DeletionTimestamp.IsZero() && !there[uuid] {
			kind := "partition"
			if p.Spec.TargetBackend == v1alpha1.BackendSPDK {
				kind = "logical volume"
			}
			missing = append(missing, fmt.Sprintf("%s/%s (%s %s)", p.Namespace, p.Name, kind, uuid))
		}
	}
	slices.Sort(strangers)
	slices.Sort(missing)
	return strangers, missing
}

func kindOf(v carve.Volume) string {
	if v.StoreUUID != "" {
		return "logical volume"
	}
	return "partition"
}

// targetAudit is condition TargetAudited; false before the first comparison. An
// export that could not be made good has its reason in its partition's conditions.
func (r *Reporter) targetAudit(partitions []v1alpha1.NVMePartition) (metav1.Condition, bool) {
	strangers, known := r.Strangers()
	if !known {
		return metav1.Condition{}, false
	}
	var missing []string
	for _, p := range partitions {
		if p.Status.Backend != nil && p.DeletionTimestamp.IsZero() && meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionExported) {
			missing = append(missing, "export of "+p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(missing)
	c := audit.Condition(v1alpha1.ConditionTargetAudited, strangers, missing)
	switch unseen := r.Unseen(); {
	case unseen == "":
	case c.Message == "":
		c.Message = unseen
	default:
		c.Message += "; " + unseen
	}
	return c, true
}
