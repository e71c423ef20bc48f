package nvmeof

import (
	"fmt"
	"strings"
	"time"
)

// Evidence is what was observed while hosts were fenced. It is complete only
// when the call that returned it returned no error; Complete tells which.
type Evidence struct {
	NQN   string   `json:"nqn"`
	Hosts []string `json:"hosts"`
	// SubsystemAbsent tells that there was no such subsystem, hence nothing
	// through which a host could write. The other observations are empty then.
	SubsystemAbsent bool `json:"subsystemAbsent,omitempty"`
	// Drained has an entry for every namespace of the subsystem, where the fence is
	// to remove that and make another one.
	Drained []Drain `json:"drained,omitempty"`
	// RemovedAt is when the subsystem was read to be gone, and with it every way
	// to its namespaces that a controller of it could have.
	RemovedAt time.Time `json:"removedAt,omitzero"`
	// DisconnectedAt is when no controller of the hosts was read any more, where the
	// target shows them and the fence is to wait for that.
	DisconnectedAt time.Time `json:"disconnectedAt,omitzero"`
	// AllowedHosts is the allow-list read back at the end.
	AllowedHosts []string `json:"allowedHosts,omitempty"`
	// LeftDisabled are namespaces that were found disabled and stay so.
	LeftDisabled []uint32 `json:"leftDisabled,omitempty"`
	// CompletedAt is when the last step had been done.
	CompletedAt time.Time `json:"completedAt,omitzero"`
}

// Drain is the disabling of one namespace, which ends only when the device
// has answered everything that was in flight.
type Drain struct {
	NSID       uint32    `json:"nsid"`
	DevicePath string    `json:"devicePath"`
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
}

// Complete tells whether the fence was carried through.
func (e Evidence) Complete() bool { return !e.CompletedAt.IsZero() }

// String returns the evidence as one line for a status or a log.
func (e Evidence) String() string {
	hosts := strings.Join(e.Hosts, ", ")
	switch {
	case !e.Complete():
		return fmt.Sprintf("fence of %s on %s is not complete", hosts, e.NQN)
	case e.SubsystemAbsent:
		return fmt.Sprintf("%s: no subsystem, nothing to fence for %s at %s", e.NQN, hosts, stamp(e.CompletedAt))
	case !e.DisconnectedAt.IsZero():
		return fmt.Sprintf("%s: %s off the list, no controller of theirs at %s, hosts read back [%s] at %s",
			e.NQN, hosts, stamp(e.DisconnectedAt), strings.Join(e.AllowedHosts, ", "), stamp(e.CompletedAt))
	}
	var drains []string
	for _, d := range e.Drained {
		drains = append(drains, fmt.Sprintf("nsid %d (%s) in %s", d.NSID, d.DevicePath, d.FinishedAt.Sub(d.StartedAt).Round(time.Millisecond)))
	}
	return fmt.Sprintf("%s: drained [%s], removed with all controllers at %s, made again without %s, hosts read back [%s] at %s",
		e.NQN, strings.Join(drains, ", "), stamp(e.RemovedAt), hosts, strings.Join(e.AllowedHosts, ", "), stamp(e.CompletedAt))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
