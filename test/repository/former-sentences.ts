/** A sentence that readers stumbled over, and the words that say the same at first read. */
export interface FormerSentence {
  readonly former: string;
  readonly better: string;
}

/** Sentences that vipnat's documents had. */
export const formerSentences: readonly FormerSentence[] = [
  { former: 'Nothing up its sleeve.', better: 'You can preview every change.' },
  {
    former:
      'It makes way. Only its own chains and hooks are touched, and kube-proxy is never kept from deleting its own.',
    better:
      'vipnat coexists with kube-proxy. vipnat changes only its own chains and hooks. kube-proxy can delete its chains at any time.',
  },
  {
    former:
      'A connection whose first packet is lost is a second late: by a master that is cut off, those of 0.7 s were with vipnat, and one failed at most.',
    better:
      "If a connection's first packet is lost, TCP retries after one second. When another master was cut off, this delayed connections opened during about 0.7 s.",
  },
  {
    former:
      "kube-vip's cells without a link are as its source has it in 2026, others' as they are documented.",
    better:
      'Cells of kube-vip without a link come from its source code of 2026. Other cells come from documentation.',
  },
  {
    former: 'New connections to a VIP, told by address and port',
    better: 'Match new connections to a VIP by address and port',
  },
  {
    former:
      'So the jump is released as soon as a look sees that wish (the REJECT rule in its filter table), a dead edge, an edge that nothing leads to any more or another mode.',
    better:
      'A sync removes the jump if kube-proxy added a REJECT rule, because kube-proxy then wants to delete the chain.',
  },
  {
    former:
      "An apiserver that goes takes its list along. A change of the way begins anew: kube-proxy's lists and ours do not know of each other.",
    better:
      'If an apiserver is removed, its affinity list is deleted. Switching the balancing mode resets affinity, because kube-proxy and vipnat keep separate lists.',
  },
  {
    former:
      'When no apiserver that the first source names does well (all are dead, draining, or in use for want of a better one), those that other sources name, or any did before, are probed too, and who is ready serves',
    better:
      'If no apiserver from the first source is healthy, vipnat also probes apiservers from other sources. It uses any that are ready.',
  },
  {
    former: 'That it shuts down: draining. Anything else: draining unless all fail within 3 s.',
    better: 'If the response says that the apiserver shuts down: draining. Any other response: draining.',
  },
  {
    former:
      "One that hangs is not reset: when its client's port had, within the last minute, another connection to the VIP that the holder itself answered and closed first, TIME_WAIT answers instead.",
    better:
      'One exception exists: the VIP holder answers instead if its socket for the same client port is in `TIME_WAIT`.',
  },
  {
    former: "Hooks stand before whatever could decide about a VIP's packets, and nowhere in particular.",
    better:
      "Hooks are before any rule that could decide about the VIP's packets. Their exact position does not matter.",
  },
  {
    former:
      "a state of `FAULT` with the track file on 1 is the agent's word that the node can serve in no way",
    better:
      '`FAULT`, with 1 in the track file, means that the agent reported: this node cannot serve the VIP',
  },
  {
    former:
      'The way `direct` beside a dead apiserver is as it should be: kube-proxy still lists it, and is passed by until it does not.',
    better:
      '`direct` is expected while an apiserver is dead. vipnat bypasses kube-proxy until kube-proxy drops that apiserver.',
  },
  {
    former: "the log says that connections that hang are left to their clients' time limits",
    better: 'the log says: stale connections last until their clients time out',
  },
  {
    former:
      'a memory of the apiservers for a start at which nobody else names any; the agent writes it anew, and a copy from another time or cluster does harm',
    better:
      'a cache for a start without any other source of apiservers. The agent creates it again. Do not restore an old copy.',
  },
  {
    former: 'What is no whole number of seconds needs VRRPv3, which is then used for IPv4 too.',
    better: 'Fractions of a second require VRRPv3. vipnat then uses VRRPv3 for IPv4, too.',
  },
  {
    former:
      'Without an agent it holds 0. By a named pipe beside it, `notify`, the agent hears what state keepalived says that it is in: its log and `vipnat status` tell it.',
    better:
      'When no agent runs, the file contains 0. keepalived reports its state through the named pipe `notify` in the same folder.',
  },
  {
    former:
      'It holds no time and no random number: the same image has the same. Scanners of holes take it as it is.',
    better:
      'The SBOM has no timestamp and no random number, so identical images have identical SBOMs. Vulnerability scanners read it directly.',
  },
  {
    former:
      "docker's health check tells whether the agent of the container's network looks at the kernel; kubelets have no use for it.",
    better:
      "Docker's health check reports whether the agent still checks the kernel. Kubernetes ignores it and uses the pod's probes.",
  },
  {
    former: 'Without conntrack only connections to dead apiservers are not reset.',
    better: 'If `conntrack` is missing, vipnat cannot reset stale connections. All other functions work.',
  },
  {
    former:
      'All is found out at the same time, each part by itself and within 5 seconds. A check that rests on what could not be found out is told as not made.',
    better:
      'doctor gathers all facts in parallel, each within 5 seconds. If a fact is unavailable, doctor lists its checks as "not checked".',
  },
  {
    former: 'Packets count that a firewall of this host drops afterwards.',
    better: "VRRP packets count even if this host's firewall drops them later.",
  },
  { former: 'Dead to all of them keeps all', better: 'If every apiserver looks dead, all stay in use' },
  {
    former:
      'At once there can be 25 events, then one every five minutes; as many repeats. What is too much is left out, or told with the next repeat.',
    better:
      'The agent sends up to 25 events in a burst, then one every five minutes. Repeat counts have the same limit.',
  },
  {
    former:
      'For a process that it takes apart the kernel goes on to accept, and resets what it has accepted when it comes to the sockets, which is when watches know.',
    better:
      'While the kernel ends a killed process, it still accepts connections. It resets them when it closes the sockets.',
  },
];
