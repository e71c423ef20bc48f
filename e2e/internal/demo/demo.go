// Package demo shows DISTORT's main job in a running lab, step by step, with
// the time each step takes.
package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/distort-io/distort/e2e/internal/flow"
)

// Namespace is where the demo makes its objects.
const Namespace = "demo"

// file is what the pods write and read; fileMiB is its size.
const (
	file    = flow.DataDir + "/file"
	fileMiB = 8
)

// Way is one transport that is shown.
type Way struct {
	// Title is how it is called, Name a part of object names.
	Title, Name string
	// Parameters are those of the StorageClass.
	Parameters map[string]string
}

// Ways returns the transports of the demo.
func Ways() []Way {
	return []Way{
		{Title: "NVMe/TCP, ext4", Name: "tcp", Parameters: map[string]string{"transport": "tcp", "csi.storage.k8s.io/fstype": "ext4"}},
		{Title: "NVMe/RDMA, xfs", Name: "rdma", Parameters: map[string]string{"transport": "rdma", "csi.storage.k8s.io/fstype": "xfs"}},
	}
}

// Class is the StorageClass that a way is shown with.
func (w Way) Class() flow.Class { return flow.Class{Name: "demo-" + w.Name, Parameters: w.Parameters} }

// Claim is that of Class.
func (w Way) Claim() flow.Claim {
	return flow.Claim{Name: "data-" + w.Name, Class: w.Class().Name, Size: "1Gi"}
}

// Pod is one that holds Claim on a node.
func (w Way) Pod(image, node string) flow.Pod {
	return flow.Pod{Name: "app-" + w.Name, Image: image, Claim: w.Claim().Name, Node: node}
}

// Demo is one showing.
type Demo struct {
	// Flow works in Namespace.
	Flow *flow.Flow
	// Drives are claimed at the start and released at the end.
	Drives []string
	// Nodes are two consumers, between which pods move.
	Nodes [2]string
	// Image is that of the pods.
	Image string
	// Out is where it is shown.
	Out io.Writer
}

// shown is what is remembered of a way between the steps.
type shown struct {
	way Way
	sum string
}

func (s shown) pod() string { return s.way.Pod("", "").Name }

// Run shows everything, the ways beside each other, and returns when a step has
// failed.
func (d *Demo) Run(ctx context.Context) error {
	if err := d.step("", "a namespace and the claims of %d drives", len(d.Drives))(func() (string, error) {
		if err := d.Flow.EnsureNamespace(ctx); err != nil {
			return "", err
		}
		return "all Bound", d.Flow.ClaimDrives(ctx, d.Drives)
	}); err != nil {
		return err
	}
	group, together := errgroup.WithContext(ctx)
	for _, way := range Ways() {
		group.Go(func() error { return d.show(together, &shown{way: way}) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return d.finish(ctx)
}

// show shows one way.
func (d *Demo) show(ctx context.Context, s *shown) error {
	for _, each := range []func(context.Context, *shown) error{d.provision, d.write, d.move, d.remove} {
		if err := each(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (d *Demo) provision(ctx context.Context, s *shown) error {
	return d.step(s.way.Title+": ", "StorageClass and PersistentVolumeClaim of 1 GiB")(func() (string, error) {
		if err := d.Flow.CreateClass(ctx, s.way.Class()); err != nil {
			return "", err
		}
		since := time.Now()
		if err := d.Flow.CreateClaim(ctx, s.way.Claim()); err != nil {
			return "", err
		}
		bound, err := d.Flow.WaitBound(ctx, s.way.Claim().Name, since)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("PVC to Exported %s, to Bound %s; on %s, drive %s, %s", seconds(bound.Exported), seconds(bound.Bound),
			bound.Partition.Spec.NodeName, bound.Partition.Spec.ParentDeviceSerialNumber, bound.Partition.Status.NQN), nil
	})
}

func (d *Demo) write(ctx context.Context, s *shown) error {
	err := d.step(s.way.Title+": ", "a pod on %s mounts it", d.Nodes[0])(func() (string, error) {
		started, err := d.Flow.StartPod(ctx, s.way.Pod(d.Image, d.Nodes[0]))
		return fmt.Sprintf("scheduled to mounted and running %s", seconds(started.Running-started.Scheduled)), err
	})
	if err != nil {
		return err
	}
	return d.step(s.way.Title+": ", "writes %d MiB and reads them back from the device", fileMiB)(func() (string, error) {
		var err error
		if s.sum, err = d.Flow.WriteFile(ctx, s.pod(), file, fileMiB); err != nil {
			return "", err
		}
		if err := d.Flow.DropCaches(ctx, d.Nodes[0]); err != nil {
			return "", err
		}
		return d.sameSum(ctx, s)
	})
}

func (d *Demo) move(ctx context.Context, s *shown) error {
	return d.step(s.way.Title+": ", "the pod is deleted and comes up on %s", d.Nodes[1])(func() (string, error) {
		begin := time.Now()
		if err := d.Flow.DeletePod(ctx, s.pod()); err != nil {
			return "", err
		}
		deleted := time.Since(begin)
		started, err := d.Flow.StartPod(ctx, s.way.Pod(d.Image, d.Nodes[1]))
		if err != nil {
			return "", err
		}
		same, err := d.sameSum(ctx, s)
		return fmt.Sprintf("deleted %s, scheduled to running %s, %s", seconds(deleted), seconds(started.Running-started.Scheduled), same), err
	})
}

// sameSum reads the file of the pod and compares its checksum.
func (d *Demo) sameSum(ctx context.Context, s *shown) (string, error) {
	got, err := d.Flow.Checksum(ctx, s.pod(), file)
	if err != nil {
		return "", err
	}
	if got != s.sum {
		return "", fmt.Errorf("%s of pod %s has checksum %s, was written with %s", file, s.pod(), got, s.sum)
	}
	return "sha256 " + got[:16] + "… is the same", nil
}

func (d *Demo) remove(ctx context.Context, s *shown) error {
	return d.step(s.way.Title+": ", "pod, claim and class are deleted")(func() (string, error) {
		if err := d.Flow.DeletePod(ctx, s.pod()); err != nil {
			return "", err
		}
		if err := d.Flow.DeleteClaim(ctx, s.way.Claim().Name); err != nil {
			return "", err
		}
		return "volume and slice are gone", d.Flow.DeleteClass(ctx, s.way.Class().Name)
	})
}

func (d *Demo) finish(ctx context.Context) error {
	if err := d.step("", "the claims of the drives are deleted")(func() (string, error) {
		return "all released", d.Flow.ReleaseDrives(ctx, d.Drives)
	}); err != nil {
		return err
	}
	return d.step("", "nothing is left")(func() (string, error) {
		seen, err := d.Flow.NothingLeft(ctx)
		if err != nil {
			return "", err
		}
		text := ""
		for _, place := range seen {
			text += "\n              " + place
		}
		return text, nil
	})
}

// step shows a title, runs, and shows the result with the time it took. of says whose
// step it is.
func (d *Demo) step(of, format string, args ...any) func(func() (string, error)) error {
	title := of + fmt.Sprintf(format, args...)
	return func(run func() (string, error)) error {
		fmt.Fprintf(d.Out, "demo          %s\n", title)
		begin := time.Now()
		result, err := run()
		if err != nil {
			fmt.Fprintf(d.Out, "demo %7s  %sFAILED\n", seconds(time.Since(begin)), of)
			return fmt.Errorf("%s: %w", title, err)
		}
		fmt.Fprintf(d.Out, "demo %7s  %sok: %s\n", seconds(time.Since(begin)), of, result)
		return nil
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
