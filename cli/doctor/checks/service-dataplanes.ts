import { nameTunnelFilter } from '../../../lib/kernel/real/strict-tunnels.ts';
import { type Check } from '../facts/check.ts';
import { given, lookAtHost, type Verdict } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** Whether something of a network plugin takes or drops packets of connections to Services before the tables of the balancer. */
export const dataplaneChecks: readonly Check[] = [
  {
    code: 'services-beside-cilium',
    levels: ['warn'],
    meaning: 'Cilium replaces kube-proxy on this node, and takes connections before nftables.',
    find: findCilium,
  },
  {
    code: 'services-beside-calico-ebpf',
    levels: ['warn'],
    meaning: "Calico's eBPF dataplane runs on this node, and takes connections before nftables.",
    find: findCalicoEbpf,
  },
  {
    code: 'services-behind-strict-tunnel',
    levels: ['warn'],
    meaning: 'Services have policy `Local`, and a tunnel of this node drops what other nodes send on.',
    find: findStrictTunnel,
  },
];

/** Source: Documentation/network/kubernetes/kubeproxy-free of Cilium 1.18: its programs are at the devices, before netfilter. */
function findCilium({ assessment, services: { cilium } }: HostFacts): Verdict {
  if (cilium === null) return { notHere: 'nothing of Cilium is here' };
  return given([assessment], ({ observation: { proxyMode } }) => {
    if (proxyMode.value !== 'none') return { notHere: `kube-proxy runs here (${proxyMode.seenIn})` };
    return lookAtHost(() => [
      {
        level: 'warn',
        title: `Cilium replaces kube-proxy here: there are no chains of kube-proxy, and ${cilium} is there`,
        why:
          "Cilium's programs may take a Service's connections before vipnat's table. Then methods, source ranges and affinity are Cilium's. " +
          'If the balancer ends, no rules of kube-proxy take over.',
        remedy: [
          '# see whether Cilium serves the addresses: cilium-dbg service list (in a pod of Cilium, on this node)',
          '# docs/doctor.md, services-beside-cilium, says what follows',
        ],
      },
    ]);
  });
}

/**
 * Source: felix/config/config_params.go and felix/rules/static.go of Calico 3.29: BPFHostConntrackBypass, true by default, keeps
 * packets of pods out of connection tracking. With it, a translation of netfilter to a pod of this node gets no answer.
 */
function findCalicoEbpf({ services: { calicoEbpf } }: HostFacts): Verdict {
  if (calicoEbpf === null) return { notHere: "nothing of Calico's eBPF dataplane is here" };
  return lookAtHost(() => [
    {
      level: 'warn',
      title: `Calico's eBPF dataplane replaces kube-proxy here: ${calicoEbpf} is there`,
      why:
        "Calico's programs may take a Service's connections before vipnat's table. Connections that vipnat sends to a pod of this node may get no " +
        'answer, because Calico keeps packets of pods out of connection tracking (bpfHostConntrackBypass).',
      remedy: [
        '# for all nodes: let the kernel track packets of pods',
        `# kubectl patch felixconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"bpfHostConntrackBypass":false}}'`,
        '# docs/doctor.md, services-beside-calico-ebpf, says what follows',
      ],
    },
  ]);
}

/** The client's packet comes by the tunnel, and the way back to the client is another interface. */
function findStrictTunnel({ services: { strictTunnels } }: HostFacts): Verdict {
  return given([strictTunnels], (devices) =>
    lookAtHost(() =>
      devices.map((device) => ({
        level: 'warn',
        title: `${device} drops packets whose return path uses another interface (rp_filter is 1)`,
        why:
          'With policy Local, other nodes send the packets of clients on to pods of this node. If these packets come by a tunnel, this node ' +
          'drops them, and the clients get no answer.',
        remedy: [`sysctl -w ${nameTunnelFilter(device)}=2`],
      })),
    ),
  );
}
