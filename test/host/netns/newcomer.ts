import { runOnBareHost } from '../../support/host/bare-host.ts';

export const vip = '10.77.0.50';

export interface Diagnosis {
  readonly stage: string;
  readonly failures: number;
  readonly warnings: number;
  readonly ok: number;
  readonly skipped: number;
  readonly pending: number;
  readonly checks: readonly {
    readonly code: string;
    readonly level: string;
    readonly reason?: string;
    readonly remedy?: readonly string[];
  }[];
  readonly next: readonly { readonly title: string; readonly commands: readonly string[] }[];
}

/** What doctor says on a bare host after this script, and how it ends. */
export async function meet(
  script: string,
  { runner = '', address = vip }: { runner?: string; address?: string } = {},
): Promise<{ exitCode: number; found: Diagnosis; codes: string[]; titles: string[] }> {
  const said = await runOnBareHost(`${script}
    status=0
    answer=$(${runner} vipnat doctor --json --vip ${address} --capture \${capture:-1500ms} 2>/dev/null) || status=$?
    say status $status
    say answer "$(echo "$answer" | tr -d '\\n')"`);
  const found = JSON.parse(said.get('answer') ?? '') as Diagnosis;
  return {
    exitCode: Number(said.get('status')),
    found,
    codes: found.checks.flatMap(({ code, level }) =>
      level === 'warn' || level === 'fail' ? [`${code} ${level}`] : [],
    ),
    titles: found.next.map(({ title }) => title.replace(/[.,:].*$/, '')),
  };
}

/** What kubeadm leaves on a master. */
export const writeMasterFiles = `
  mkdir -p /etc/kubernetes/manifests
  printf '    - kube-apiserver\\n    - --shutdown-delay-duration=10s\\n' >/etc/kubernetes/manifests/kube-apiserver.yaml`;
