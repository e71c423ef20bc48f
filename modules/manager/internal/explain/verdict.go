package explain

import "time"

// Boundary is a step on the way from a claim to a mount: what is handed over
// there, from one program to the next.
type Boundary string

// Boundaries in the order in which a volume passes them.
const (
	// Claim: the PersistentVolumeClaim is asked for and answered.
	Claim Boundary = "pvc"
	// Placement: a node and a drive are chosen.
	Placement Boundary = "placement"
	// Storage: the slice is on the drive, and the drive and its agent are there.
	Storage Boundary = "storage"
	// Export: the target serves the slice.
	Export Boundary = "export"
	// Access: the target admits the pod's host.
	Access Boundary = "access"
	// Connection: the host is connected and found the device.
	Connection Boundary = "connection"
	// Mount: the filesystem or device is in the pod.
	Mount Boundary = "mount"
)

// State is how far a boundary, or the whole volume, is.
type State string

// States.
const (
	OK State = "ok"
	// Waiting: in progress, for no longer than Patience.
	Waiting State = "waiting"
	Broken  State = "broken"
	// Unknown: what shows the state could not be read.
	Unknown State = "unknown"
	// Unused: nothing asks for it, as when no pod uses a volume.
	Unused State = "unused"
	// NotReached: an earlier boundary is not passed.
	NotReached State = "not reached"
)

// Patience is how long something may be in progress before it counts as broken.
// It is longer than every timeout of a component, so that a failure that is
// reported is seen before.
const Patience = 5 * time.Minute

// Subject is what is explained.
type Subject struct {
	// Kind is pvc, or nvmepartition for a volume without a claim.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Kinds of subjects.
const (
	SubjectClaim     = "pvc"
	SubjectPartition = "nvmepartition"
)

// String is "pvc demo/data".
func (s Subject) String() string { return s.Kind + " " + s.Namespace + "/" + s.Name }

// Evidence is one observation that a finding rests on.
type Evidence struct {
	// Object is "Kind name" or "Kind namespace/name".
	Object string `json:"object"`
	// Condition is "Type=Status" for a condition, and empty for an event or an
	// error field.
	Condition string     `json:"condition,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
}

// Finding is what one boundary shows.
type Finding struct {
	// Boundary is empty in the verdict on a volume that is well.
	Boundary Boundary `json:"boundary,omitempty"`
	State    State    `json:"state"`
	// Reason is one word for programs.
	Reason string `json:"reason,omitempty"`
	// Message is one line for people.
	Message string `json:"message,omitempty"`
	// Since is when it became so; absent when nothing tells.
	Since *time.Time `json:"since,omitempty"`
	// Owner must do something next.
	Owner *Owner `json:"owner,omitempty"`
	// Next is the command to run next.
	Next     string     `json:"next,omitempty"`
	Evidence []Evidence `json:"evidence,omitempty"`
	// Note says what else is worth knowing, such as what is not affected.
	Note string `json:"note,omitempty"`
}

// Unreadable is evidence that the user has no right to, or that the cluster does
// not serve.
type Unreadable struct {
	Kind string `json:"kind"`
	// Name is empty when all objects of the kind are meant.
	Name  string `json:"name,omitempty"`
	Error string `json:"error"`
}

// Verdict is the first boundary that is not passed, with all of them.
type Verdict struct {
	Subject Subject `json:"subject"`
	Finding
	// Steps has every boundary once, in order.
	Steps      []Finding    `json:"steps"`
	Unreadable []Unreadable `json:"unreadable,omitempty"`
}
