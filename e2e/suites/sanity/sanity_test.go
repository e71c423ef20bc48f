// Package sanity runs csi-sanity against the driver as it is installed in the
// lab: the controller's socket, a node's socket, and that node's kernel.
package sanity

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/distort-io/distort/e2e/internal/driver"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/suite"
)

const (
	// root is where the driver may mount.
	root = "/var/lib/kubelet/csi-sanity"

	volumeBytes = 64 << 20
	grownBytes  = 128 << 20
)

func TestSanity(t *testing.T) {
	l := suite.Open(t)
	f := suite.Flow(t, l, "e2e-sanity")
	drives := layout.Drives()
	suite.Must(t, f.ClaimDrives(t.Context(), drives))
	name := layout.Consumers()[0]
	host := suite.Guest(t, l, name)
	dirs := &directories{ctx: t.Context(), guest: host}
	_, err := dirs.make(root)
	suite.Must(t, err)

	config := sanity.NewTestConfig()
	controller, err := driver.Controller(t.Context(), f.Client())
	suite.Must(t, err)
	config.Address, config.ControllerAddress = driver.Target, driver.Target
	config.DialOptions = driver.Options(t.Context(), host, driver.Node(name))
	config.ControllerDialOptions = driver.Options(t.Context(), suite.Guest(t, l, controller.Node), controller)
	config.TestVolumeSize, config.TestVolumeExpandSize = volumeBytes, grownBytes
	config.TestVolumeParameters = map[string]string{"transport": "tcp"}
	// A retry is a retry; ten of each take an emulated node minutes.
	config.IdempotentCount = 2
	config.TargetPath, config.StagingPath = path.Join(root, "target"), path.Join(root, "staging")
	config.CreateTargetDir, config.CreateStagingDir = dirs.make, dirs.make
	config.RemoveTargetPath, config.RemoveStagingPath = dirs.remove, dirs.remove
	config.CheckPath = dirs.kind

	// The driver offers these for pools; the suite's volumes are on drives.
	suite.Must(t, flag.Set("ginkgo.skip", onlyPools))
	ginkgo.ReportAfterSuite("specs", func(r ginkgo.Report) {
		for _, s := range r.SpecReports {
			if s.State.Is(types.SpecStateSkipped) {
				if why := reason(s.FullText()); why == "" {
					t.Errorf("skipped without a reason: %s: %s", s.FullText(), s.Failure.Message)
				} else {
					t.Logf("skipped, %s: %s", why, s.FullText())
				}
			}
		}
		ran := r.SpecReports.CountWithState(types.SpecStatePassed | types.SpecStateFailed)
		t.Logf("%d specs ran", ran)
		if ran < leastSpecs {
			t.Errorf("%d specs ran, want at least %d: the rest was skipped", ran, leastSpecs)
		}
	})
	sanity.Test(t, config)

	suite.Must(t, dirs.remove(root))
	if t.Failed() {
		return // what is left helps to see why
	}
	suite.Must(t, f.ReleaseDrives(t.Context(), drives))
	_, err = f.NothingLeft(t.Context())
	suite.Must(t, err)
}

// onlyPools are the specs about snapshots, clones and changes, which partitions do not
// have.
const onlyPools = "napshot|existing source volume|volume source volume is not found|should modify a volume created with"

// leastSpecs run with what the driver offers.
const leastSpecs = 56

// reason tells why a spec cannot run against partitions of the kernel's target;
// make csi-sanity names each spec.
func reason(spec string) string {
	for part, why := range map[string]string{
		"napshot":                               "partitions have no snapshots",
		"GroupController":                       "there are no groups",
		"volume source volume is not found":     "partitions have no clones",
		"from an existing source volume":        "partitions have no clones",
		"should modify a volume created with":   "no parameter of a partition can change later",
		"added between pages":                   "csi-sanity leaves it out (csi-test#223)",
		"already published but is incompatible": "a volume is not published read-only",
		"more volumes than the node max attach": "the drives of the lab do not hold the 128 volumes of a node's limit",
	} {
		if strings.Contains(spec, part) {
			return why
		}
	}
	return ""
}

// directories of a guest.
type directories struct {
	ctx   context.Context
	guest *guestexec.Client
}

func (d *directories) make(name string) (string, error) {
	_, err := d.guest.Output(d.ctx, "mkdir", "-p", "--", name)
	return name, err
}

func (d *directories) remove(name string) error {
	_, err := d.guest.Output(d.ctx, "rmdir", "--", name)
	return err
}

func (d *directories) kind(name string) (sanity.PathKind, error) {
	out, err := d.guest.Output(d.ctx, "stat", "-c", "%F", "--", name)
	var failure *guestexec.Error
	if errors.As(err, &failure) && strings.Contains(failure.Output, "No such file") {
		return sanity.PathIsNotFound, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", name, err)
	}
	switch strings.TrimSpace(out) {
	case "directory":
		return sanity.PathIsDir, nil
	case "regular file", "regular empty file":
		return sanity.PathIsFile, nil
	}
	return sanity.PathIsOther, nil
}
