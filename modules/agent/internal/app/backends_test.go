package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// open is the site's world, which ends with the test.
func (s site) open(t *testing.T) *world {
	t.Helper()
	w := s.world(t)
	t.Cleanup(w.close)
	return w
}

// TestOnEveryBackend runs what must hold of partitions and their attachments
// whatever target serves them.
func TestOnEveryBackend(t *testing.T) {
	for name, test := range map[string]func(*testing.T, site){
		"provision carves, exports, and writes once":                    provisionCarvesExportsAndWritesOnce,
		"deletion leaves nothing":                                       deletionLeavesNothing,
		"deletion of one partition keeps its sibling":                   deletionOfOnePartitionKeepsItsSibling,
		"provision refusals":                                            provisionRefusals,
		"after a reboot the same export is rebuilt without a write":     afterARebootTheSameExportIsRebuiltWithoutAWrite,
		"after a reboot only what was vouched for is restored":          afterARebootOnlyWhatWasVouchedForIsRestored,
		"endpoint change leaves live sessions alone":                    endpointChangeLeavesLiveSessionsAlone,
		"a reboot forgets former addresses":                             aRebootForgetsFormerAddresses,
		"deletion without the drive needs somebody to abandon the data": deletionWithoutTheDriveNeedsSomebodyToAbandonTheData,
		"a drive that is there is not abandoned":                        aDriveThatIsThereIsNotAbandoned,
		"restart rebuilds in any order":                                 restartRebuildsInAnyOrder,
		"growth reaches connected hosts and writes once":                growthReachesConnectedHostsAndWritesOnce,
		"attach admits exactly its host and writes once":                attachAdmitsExactlyItsHostAndWritesOnce,
		"detach fences and leaves evidence":                             detachFencesAndLeavesEvidence,
		"takeover admits the next host only after the last":             takeoverAdmitsTheNextHostOnlyAfterTheLast,
		"shared volume keeps its other hosts":                           sharedVolumeKeepsItsOtherHosts,
		"attach waits for the export":                                   attachWaitsForTheExport,
		"nobody is admitted without our finalizer":                      nobodyIsAdmittedWithoutOurFinalizer,
		"deletion waits for attachments and names them":                 deletionWaitsForAttachmentsAndNamesThem,
		"a deleting volume admits nobody new":                           aDeletingVolumeAdmitsNobodyNew,
		"format record travels from attachment to volume and on":        formatRecordTravelsFromAttachmentToVolumeAndOn,
		"an unfinished format is recorded before its attachment goes":   anUnfinishedFormatIsRecordedBeforeItsAttachmentGoes,
		"many read a copy once its journal is replayed":                 manyReadACopyOnceItsJournalIsReplayed,
		"agent overtakes what was said of its silence":                  agentOvertakesWhatWasSaidOfItsSilence,
		"attachments that are refused":                                  attachmentsThatAreRefused,
		"evidence is kept as an event on the volume":                    evidenceIsKeptAsAnEventOnTheVolume,
		"recreated volume admits nobody of its earlier life":            recreatedVolumeAdmitsNobodyOfItsEarlierLife,
		"restart finishes a pending revocation before it serves":        restartFinishesAPendingRevocationBeforeItServes,
	} {
		for _, on := range everySite() {
			t.Run(on.name+"/"+name, func(t *testing.T) { test(t, on) })
		}
	}
}

// backendIdentity is how the world's backend names the slice of the partition.
func (w *world) backendIdentity(p *v1alpha1.NVMePartition) *v1alpha1.BackendIdentity {
	w.t.Helper()
	if w.node.SPDK == nil {
		return &v1alpha1.BackendIdentity{PartitionUUID: identity.PartitionUUID(string(p.UID))}
	}
	name := identity.ExternalID(string(p.UID))
	for _, l := range w.node.SPDK.Lvols() {
		if l.Name == name {
			return &v1alpha1.BackendIdentity{LvstoreName: "lvs_" + serial, LvstoreUUID: p.Status.Backend.LvstoreUUID, LvolName: name, LvolUUID: l.UUID}
		}
	}
	w.t.Fatalf("no logical volume %s", name)
	return nil
}

// sliceOf is the UUID of the partition's slice, as its status has it.
func sliceOf(p *v1alpha1.NVMePartition) string {
	return p.Status.Backend.PartitionUUID + p.Status.Backend.LvolUUID
}

// proof is what the evidence of a fence says, its source first.
func (w *world) proof() []string {
	if w.node.SPDK == nil {
		return []string{"configfs", "drained", "removed with all controllers"}
	}
	return []string{"nvmf_subsystem_get_controllers", "off the list", "no controller of theirs"}
}

// admissions are the changes of the target since the last call by which it admits a
// host.
func (w *world) admissions() []string {
	trace := w.node.Kernel.Trace()
	if w.node.SPDK != nil {
		trace = w.node.SPDK.Trace()
	}
	return slices.DeleteFunc(trace, func(line string) bool {
		link := strings.HasPrefix(line, "symlink ") && strings.Contains(line, "/allowed_hosts/")
		return !link && !strings.HasPrefix(line, "nvmf_subsystem_add_host ")
	})
}
