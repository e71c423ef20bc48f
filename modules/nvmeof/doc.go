// Package nvmeof describes what an NVMe-oF target shall export and offers one
// interface, Target, that makes it so, reads it back and takes it away.
//
// A Subsystem is a plain value: its NQN, the block devices behind its
// namespaces with their pinned identities, the hosts that may connect and the
// addresses it listens on. Target.Ensure makes the target equal to that value,
// exactly: what is missing is made, what is wrong is repaired, what is too
// much is removed. It may be killed between any two steps; the next call
// finishes. Target.Revoke is a fence: when it answers without an error, no
// write of that host reaches the medium any more.
//
// Package kernel implements Target on the Linux kernel's nvmet configfs, package
// spdk on SPDK's nvmf_tgt. Package nvmeoftest has a model of that configfs, and
// nvmeoftest/spdkfake one of nvmf_tgt, for tests without root, and a conformance
// suite for implementations of Target.
//
// Every value that comes from outside has one strict grammar and one parser,
// here: ParseNQN, ParseListener, ParseUUID, ParseNGUID. Validation errors name
// the field, the value and the rule.
package nvmeof
