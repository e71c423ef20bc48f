package prepare

import "os"

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
	return append(steps, envtestStep(), helmStep(), packagesStep(), kernelStep(), guestTreeStep())
}
