package prepare

import (
	"os"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/guest"
)

// Steps that the rest of the lab asks for by name.
const (
	StepEnvtest   = "envtest"
	StepHelm      = "helm"
	StepKernel    = "kernel"
	StepInitrd    = "initrd"
	StepRootDisk  = "root-disk"
	StepLabDisk   = "lab-disk"
	StepImageDisk = "image-disk"
	StepBareDisk  = "bare-disk"
	StepPackages  = "packages"
	StepProduct   = "product"
	StepZFS       = "zfs"
	StepAttacher  = "attacher"
)

// Catalogue returns every step. Programs of Kubernetes and etcd come from
// $KUBE_BIN_DIR where that is set.
func Catalogue() []Step {
	var steps []Step
	given := os.Getenv(EnvKubeBinDir)
	if given != "" {
		steps = append(steps, givenSteps(given)...)
	}
	for _, component := range components {
		if given != "" && (component.step == "etcd" || component.step == "kubernetes") {
			continue
		}
		steps = append(steps, component.asStep())
	}
	return append(steps,
		envtestStep(), packagesStep(StepPackages, "host packages", hostPackages), packagesStep("browser", "headless browser", browserPackages),
		kernelStep(), onDemand(packagesStep("compiler", "compiler of kernel modules", compilerPackages)), onDemand(zfsStep()), guestTreeStep(), initrdStep(), rootDiskStep(), labDiskStep(), baseStep(),
		productStep(), imageDiskStep(StepImageDisk, "disk with all container images", "base-images", "product"),
		imageDiskStep(StepBareDisk, "disk with the images of a cluster without DISTORT", "base-images"), helmStep(),
	)
}

// onDemand returns the step as one that only those make who ask for it.
func onDemand(step Step) Step {
	step.OnDemand = true
	return step
}

// ClusterSteps are those that a running cluster needs; a bare one has no images
// of the product.
func ClusterSteps(bare bool) []string {
	disk := StepImageDisk
	if bare {
		disk = StepBareDisk
	}
	return []string{StepPackages, StepEnvtest, StepKernel, StepInitrd, StepRootDisk, StepLabDisk, disk}
}

// GuestFiles names the files that guests boot from.
func GuestFiles(made Artifacts) guest.Files {
	images := made[StepImageDisk]
	if images == "" {
		images = made[StepBareDisk]
	}
	return guest.Files{
		Kernel:    filepath.Join(made[StepKernel], kernelImage),
		Initrd:    filepath.Join(made[StepInitrd], initrdFile),
		RootDisk:  filepath.Join(made[StepRootDisk], rootDisk),
		LabDisk:   filepath.Join(made[StepLabDisk], labDisk),
		ImageDisk: filepath.Join(images, imageDisk),
	}
}
