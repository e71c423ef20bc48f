module github.com/distort-io/distort/modules/agent

go 1.26.0

require (
	github.com/distort-io/distort/modules/api v0.1.0
	github.com/distort-io/distort/modules/nvmeof v0.1.0
	github.com/go-logr/logr v1.4.4
	github.com/google/go-cmp v0.7.0
	github.com/spf13/pflag v1.0.10
	golang.org/x/sys v0.50.0
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
	k8s.io/klog/v2 v2.140.0
	sigs.k8s.io/controller-runtime v0.25.2
)
