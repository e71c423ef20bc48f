package prepare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/e2e/internal/cache"
)

// kubernetesVersion is what the binaries built here report; it is the version
// required by e2e/components/kubernetes/go.mod.
const kubernetesVersion = "v1.37.2"

// strip leaves the symbol table and debug information out of a binary.
const strip = "-s -w"

// component is a set of programs built from one pinned upstream module.
type component struct {
	step     string
	summary  string
	module   string
	tags     string
	ldflags  string
	packages []string
	// output is the file to write; empty means one file for each package.
	output string
	// links are further names of the output.
	links []string
	// files are copied from modules that the programs are built of.
	files []moduleFile
}

// moduleFile is a file of a module.
type moduleFile struct{ module, path string }

// snapshotClient is the module with the CRDs of VolumeSnapshots.
const snapshotClient = "github.com/kubernetes-csi/external-snapshotter/client/v8"

var components = []component{
	{step: "etcd", summary: "etcd", module: "etcd", packages: []string{"."}, output: "etcd", ldflags: strip},
	{step: "kubernetes", summary: "Kubernetes " + kubernetesVersion + ", the long one", module: "kubernetes", packages: []string{"."}, output: "hyperkube",
		ldflags: strip + " -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
			" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37",
		links: kubernetesPrograms},
	{step: StepAttacher, summary: "CSI attacher and snapshotter, snapshot-controller", module: "attacher", ldflags: strip,
		packages: []string{
			"github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
			"github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
			"github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
		},
		files: []moduleFile{
			{snapshotClient, "config/crd/snapshot.storage.k8s.io_volumesnapshotclasses.yaml"},
			{snapshotClient, "config/crd/snapshot.storage.k8s.io_volumesnapshotcontents.yaml"},
			{snapshotClient, "config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml"},
			{"github.com/kubernetes-csi/external-snapshotter/v8", "deploy/kubernetes/snapshot-controller/rbac-snapshot-controller.yaml"},
		}},
	{step: "provisioner", summary: "CSI provisioner and resizer", module: "provisioner", ldflags: strip,
		packages: []string{
			"github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner",
			"github.com/kubernetes-csi/external-resizer/cmd/csi-resizer",
		}},
	{step: "containerd", summary: "containerd", module: "containerd", ldflags: strip, tags: "no_btrfs,no_zfs,no_devmapper,no_aufs",
		packages: []string{
			"github.com/containerd/containerd/v2/cmd/containerd",
			"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			"github.com/containerd/containerd/v2/cmd/ctr",
		}},
}

// kubernetesPrograms are the names hyperkube answers to.
var kubernetesPrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"}

// goEnv makes static binaries from the pinned modules, not from the workspace.
var goEnv = []string{"CGO_ENABLED=0", "GOWORK=off"}

func (c component) asStep() Step {
	return Step{
		Name: c.step, Summary: c.summary, Lane: LaneCompile,
		Key: func(ctx context.Context, w *Workshop) (string, error) {
			goVersion, err := w.Run.Output(ctx, "go", "env", "GOVERSION")
			if err != nil {
				return "", err
			}
			key := cache.NewKey("component 1").String("go", goVersion).
				String("tags", c.tags).String("ldflags", c.ldflags).String("output", c.output).
				Strings("packages", c.packages).Strings("links", c.links).
				Files(w.Components(c.module), "go.mod", "go.sum", "*.go")
			for _, file := range c.files {
				key.String(file.module, file.path)
			}
			return key.Sum()
		},
		Build: c.build,
	}
}

func (c component) build(ctx context.Context, w *Workshop, dir string) error {
	args := []string{"build", "-trimpath", "-ldflags", c.ldflags, "-o", filepath.Join(dir, c.output)}
	if c.tags != "" {
		args = append(args, "-tags", c.tags)
	}
	if c.output == "" {
		// A trailing separator makes the compiler write one file for each package.
		args[5] += string(filepath.Separator)
	}
	if err := w.Run.With(goEnv...).In(w.Components(c.module)).RunOnNetwork(ctx, "go", append(args, c.packages...)...); err != nil {
		return err
	}
	for _, link := range c.links {
		if err := os.Symlink(c.output, filepath.Join(dir, link)); err != nil {
			return fmt.Errorf("name %s %s: %w", c.output, link, err)
		}
	}
	for _, file := range c.files {
		source, err := w.Run.With(goEnv...).In(w.Components(c.module)).Output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", file.module)
		if err != nil {
			return err
		}
		if err := copyFile(filepath.Join(strings.TrimSpace(source), file.path), filepath.Join(dir, filepath.Base(file.path)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// helmModule is the installer of the chart, built straight from its module.
const helmModule = "helm.sh/helm/v3/cmd/helm@v3.22.0"

func helmStep() Step {
	return Step{
		Name: "helm", Summary: strings.TrimPrefix(helmModule, "helm.sh/helm/v3/cmd/"), Lane: LaneCompile,
		Key: func(context.Context, *Workshop) (string, error) {
			return cache.NewKey("helm 1").String("module", helmModule).Sum()
		},
		Build: func(ctx context.Context, w *Workshop, dir string) error {
			return w.Run.With(append(goEnv, "GOBIN="+dir)...).RunOnNetwork(ctx, "go", "install", "-trimpath", "-ldflags", strip, helmModule)
		},
	}
}
