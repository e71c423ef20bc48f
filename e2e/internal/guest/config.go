package guest

// kubeletText is kubelet's configuration. Nothing is evicted and no image is
// collected, since a lab's disk is small and its images cannot be pulled again.
// A grown volume's filesystem is expanded at the next sync of its pod.
const kubeletText = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: ` + clientCAPath + `}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupsPerQOS: true
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://` + containerdSocket + `
failSwapOn: false
resolvConf: /etc/resolv.conf
evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%", imagefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 10s
syncFrequency: 20s
nodeLeaseDurationSeconds: 40
volumeStatsAggPeriod: 10m
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
clusterDomain: cluster.local
`

// containerdText takes the image that holds a pod's namespaces. Statistics are
// collected seldom: once a second, as is the default, they take a third of an
// emulated CPU.
const containerdText = `version = 3
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  stats_collect_period = 300
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '%s'
[plugins.'io.containerd.cri.v1.runtime']
  stats_collect_period = '60s'
  stats_retention_period = '5m'
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['/usr/lib/cni']
    conf_dir = '/etc/cni/net.d'
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'runc'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
`

// cniText takes the network of the node's pods.
const cniText = `{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "%s"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`
