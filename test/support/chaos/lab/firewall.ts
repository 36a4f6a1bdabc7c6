import { type Machine, runShell } from '../../../../tools/lab/machines/machine.ts';
import { vips } from '../../network/layout.ts';
import { compareForeign, describeChain, describeForeign } from '../../foreign/dump.ts';

const nowhere = '10.77.0.99';

/**
 * The rules of a host's administrator, who knows nothing of Kubernetes: what they are is known here from what the
 * administrator did, so that whoever else changes them is found out.
 */
export class Firewall {
  readonly #machine: Machine;
  /** `table CHAIN` to its rules in order, as iptables-save prints them. */
  #chains = new Map<string, readonly string[]>();
  #isDropping = false;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** Restores the saved file: all tables of it are as in the file, and nothing of anybody else is left in them. */
  async restore(): Promise<void> {
    await this.#run('iptables-nft-restore', savedRules);
    this.#chains = new Map(savedChains);
    this.#isDropping = true;
  }

  /** Flushes everything that nf_tables knows, of whomever, and loads the nft file: `systemctl reload nftables`. */
  async reload(): Promise<void> {
    await this.#run('nft -f -', `flush ruleset\n${nftTable}\n`);
    this.#chains = new Map();
    this.#isDropping = false;
  }

  /** Flushes the chains of a table; those of others stay, empty. */
  async flush(table: string): Promise<void> {
    await runShell(this.#machine, `iptables-nft -t ${table} -F`);
    this.#chains = new Map(
      [...this.#chains].map(([key, rules]) => [key, key.startsWith(`${table} `) ? [] : rules]),
    );
  }

  /** Puts a rule that would send the VIP's packets to nowhere before everything else. */
  async obstruct(chain: string, number: number): Promise<void> {
    const rule = `-A ${chain} -d ${vips.ipv4}/32 -p tcp -m tcp --dport 6443 -m comment --comment "stranger ${number}" -j DNAT --to-destination ${nowhere}:${number}`;
    await this.#add('nat', chain, rule);
  }

  /** Removes all of those: in front of rules in the other backend nobody can be. */
  async clear(): Promise<void> {
    for (const [key, rules] of this.#chains) {
      const obstructing = rules.filter((rule) => rule.includes(nowhere));
      for (const rule of obstructing)
        await runShell(this.#machine, `iptables-nft -t nat ${rule.replace(/^-A/, '-D')}`);
      this.#chains.set(
        key,
        rules.filter((rule) => !obstructing.includes(rule)),
      );
    }
  }

  /** Puts a rule that has nothing to do with the VIP before everything else. */
  async insert(table: string, chain: string, number: number): Promise<void> {
    const rule = `-A ${chain} -p udp -m udp --dport ${number} -m comment --comment "stranger ${number}" -j RETURN`;
    await this.#add(table, chain, rule);
  }

  /** Removes the first rule of a chain that it has there. */
  async remove(table: string, chain: string): Promise<void> {
    const key = `${table} ${chain}`;
    const [first, ...rest] = this.#chains.get(key) ?? [];
    if (first === undefined) return;
    await runShell(this.#machine, `iptables-nft -t ${table} ${first.replace(/^-A/, '-D')}`);
    this.#chains.set(key, rest);
  }

  /** How what is there differs from what the administrator left, apart from the rules of kube-proxy and vipnat. */
  async compare(): Promise<string[]> {
    const { stdout } = await this.#machine.run([
      'sh',
      '-c',
      'iptables-nft-save; echo "# legacy"; iptables-legacy-save; echo "# own"; nft list table inet stranger',
    ]);
    const [nft = '', rest = ''] = stdout.split('# legacy\n');
    const [legacy = '', own = ''] = rest.split('# own\n');
    return [
      ...compareForeign(
        [...listOthers('iptables-nft-save', nft), ...listOthers('iptables-legacy-save', legacy)],
        this.#describe('iptables-nft-save'),
      ),
      ...(own.trimEnd() === nftTable ? [] : [`the table inet stranger is now ${JSON.stringify(own)}`]),
    ].map((complaint) => `${this.#machine.name}: ${complaint}`);
  }

  /** Both files, as at boot. */
  async boot(): Promise<void> {
    await this.reload();
    await runShell(this.#machine, flushLegacy);
    await this.restore();
  }

  async #add(table: string, chain: string, rule: string): Promise<void> {
    await runShell(this.#machine, `iptables-nft -t ${table} ${rule.replace(`-A ${chain}`, `-I ${chain} 1`)}`);
    const key = `${table} ${chain}`;
    this.#chains.set(key, [rule, ...(this.#chains.get(key) ?? [])]);
  }

  async #run(command: string, input: string): Promise<void> {
    const { exitCode, stderr } = await this.#machine.run(['sh', '-c', command], { input });
    if (exitCode !== 0) throw new Error(`${command} on ${this.#machine.name}: ${stderr}`);
  }

  /** Those of its chains that are not as the kernel makes them. */
  #describe(tool: string): string[] {
    const dropping = 'filter FORWARD';
    const keys = new Set([...this.#chains.keys(), ...(this.#isDropping ? [dropping] : [])]);
    return [...keys].flatMap((key) => {
      const [table = '', chain = ''] = key.split(' ');
      const policy = key === dropping && this.#isDropping ? 'DROP' : 'ACCEPT';
      const rules = (this.#chains.get(key) ?? []).map((rule) => rule.replace(/^-A \S+ /, ''));
      if (policy === 'ACCEPT' && rules.length === 0) return [];
      return [describeChain(`${tool} *${table} ${chain}`, policy, rules)];
    });
  }
}

/** From before kube-proxy and vipnat came. */
const savedChains: readonly (readonly [string, readonly string[]])[] = [
  [
    'filter INPUT',
    [
      '-A INPUT -i lo -j ACCEPT',
      '-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      '-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT',
    ],
  ],
  [
    'nat POSTROUTING',
    [
      '-A POSTROUTING -s 192.0.2.0/24 -p tcp -m tcp --dport 25 -m comment --comment "stranger mail" -j MASQUERADE',
    ],
  ],
];

const savedRules = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
${(savedChains[0]?.[1] ?? []).join('\n')}
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
${(savedChains[1]?.[1] ?? []).join('\n')}
COMMIT
`;

/** As nft lists it. */
const nftTable = `table inet stranger {
	chain input {
		type filter hook input priority filter + 10; policy accept;
		udp dport 7 drop
	}

	chain unused {
		tcp dport 9 accept
	}
}`;

const flushLegacy = `for table in nat filter mangle; do
  iptables-legacy -t $table -F
  iptables-legacy -t $table -X
done`;

/** What is neither vipnat's nor kube-proxy's. */
function listOthers(tool: string, saved: string): string[] {
  return describeForeign(tool, saved, (rule) => !/-j KUBE-/.test(rule));
}
