// Package fence tests in the lab what fencing promises (design.md §6): a host that
// was detached by force, and never stopped writing, writes nothing after the next
// host was let in, whether it was connected, cut off from the network, without
// power, or came back; and what cannot be proven is not released.
//
// The volumes are provisioned, attached and detached by the product and the
// upstream sidecars, through VolumeAttachments, as Kubernetes does for a node that
// does not answer: without a word to the node. The hosts connect by themselves and
// never give up. Only the pod of a dead node is left to Kubernetes altogether.
package fence
