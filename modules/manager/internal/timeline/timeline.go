// Package timeline orders what the objects of a volume say of their past: when
// they were made, when their conditions changed, and their Events. It is what can
// be told of a volume where nothing collects traces.
package timeline

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// Entry is one thing that happened. Kubernetes keeps most times in whole seconds.
type Entry struct {
	Time time.Time `json:"time"`
	// Kind and Name of the object that it happened to.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// What happened: "created", "Exported=True", or "Event".
	What    string `json:"what"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Bad is a condition that is not met, or a warning.
	Bad bool `json:"bad,omitempty"`
	// Count is how often an Event came, when more than once; Time is the last.
	Count int32 `json:"count,omitempty"`
}

// Of a volume, oldest first. The events are those of all its objects.
func Of(s explain.Snapshot, events []corev1.Event) []Entry {
	var l list
	if s.Claim != nil {
		l.life(explain.KindClaim, s.Claim)
	}
	if s.Volume != nil {
		l.life(explain.KindVolume, s.Volume)
	}
	if s.Partition != nil {
		l.life(explain.KindPartition, s.Partition)
		l.conditions(explain.KindPartition, s.Partition.Name, s.Partition.Status.Conditions)
	}
	for i := range s.Attachments {
		a := &s.Attachments[i]
		l.life(explain.KindAttachment, a)
		l.conditions(explain.KindAttachment, a.Name, a.Status.Conditions)
	}
	for i := range s.Pods {
		l.pod(&s.Pods[i])
	}
	for i := range events {
		l.event(&events[i])
	}
	slices.SortStableFunc(l, func(a, b Entry) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.rank(), b.rank())) })
	return l
}

type list []Entry

// rank orders what happened within one second: an object is made before its
// conditions change.
func (e Entry) rank() int {
	if e.What == "created" {
		return 0
	}
	return 1
}

func (l *list) life(kind string, o metav1.Object) {
	*l = append(*l, Entry{Time: o.GetCreationTimestamp().UTC(), Kind: kind, Name: o.GetName(), What: "created"})
	if gone := o.GetDeletionTimestamp(); gone != nil {
		*l = append(*l, Entry{Time: gone.UTC(), Kind: kind, Name: o.GetName(), What: "deletion asked for"})
	}
}

func (l *list) conditions(kind, name string, all []metav1.Condition) {
	for _, c := range all {
		*l = append(*l, Entry{
			Time: c.LastTransitionTime.UTC(), Kind: kind, Name: name, What: c.Type + "=" + string(c.Status),
			Reason: c.Reason, Message: c.Message, Bad: c.Status != metav1.ConditionTrue,
		})
	}
}

// pod adds when a pod was made, scheduled and ready.
func (l *list) pod(p *corev1.Pod) {
	l.life(explain.KindPod, p)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled || c.Type == corev1.PodReady {
			*l = append(*l, Entry{
				Time: c.LastTransitionTime.UTC(), Kind: explain.KindPod, Name: p.Name, What: string(c.Type) + "=" + string(c.Status),
				Reason: c.Reason, Message: c.Message, Bad: c.Status != corev1.ConditionTrue,
			})
		}
	}
}

func (l *list) event(e *corev1.Event) {
	at, count := e.LastTimestamp.Time, e.Count
	if s := e.Series; s != nil {
		at, count = s.LastObservedTime.Time, s.Count
	}
	if at.IsZero() {
		at = e.EventTime.Time
	}
	if at.IsZero() {
		at = e.CreationTimestamp.Time
	}
	if count == 1 {
		count = 0
	}
	*l = append(*l, Entry{
		Time: at.UTC(), Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name, What: "Event",
		Reason: e.Reason, Message: e.Message, Bad: e.Type == corev1.EventTypeWarning, Count: count,
	})
}
