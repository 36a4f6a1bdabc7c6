import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import type { KeepalivedAlone } from './keepalived-alone.ts';
import type { CommandResult } from '../../../../tools/lab/machines/machine.ts';
import { readCommand } from '../../../support/documents/typing.ts';
import { test, expect } from '@jest/globals';
import { readSteps } from '../../../support/documents/walkthrough.ts';
import { onlyLong, isLong } from '../../../support/jest/extent.ts';
import { waitUntil, waitForDaemonSet } from '../../../../tools/lab/nodes/ready.ts';
import { expectShares } from '../measure/expect-shares.ts';
import { readLog, findPod, listCrashes } from '../pods/agents.ts';
import { testLooks } from '../pods/features.ts';
import { expectNoTraces } from './traces.ts';
import type { Administrator } from './administrator.ts';
import { parseDocument } from '../../../support/documents/document.ts';
import { readFileSync } from 'node:fs';

const page = 'docs/install.md';

/** What an agent complains of where the machine is busy. */
const slow = /\[(?:TOOL_TIMED_OUT|API_UNREACHABLE)\]/;

/** Why doctor leaves out checks in a privileged pod, which has not the host's processes either. */
const cannot = [
  /does not see the host's processes \(hostPID\)$/,
  /^this container does not see the host's \/etc\//,
];

/** Tests that commands of the documents work on nodes with containerd alone: to look, to install, to update, to go back, to remove. */
export function testInstall(lab: () => NodeLab, alone: () => KeepalivedAlone): void {
  /** Types a line of a page on the VIP's holder, with this cluster's addresses in the place of the page's. */
  const type = async (start: string, from = page): Promise<CommandResult> => {
    const [first] = alone().administrators;
    return await first.type(adapt(readCommand(from, start), lab(), first));
  };

  /** The same at a terminal, which `-it` asks for. Answers what it shows, without the breaks of lines. */
  const typeAtTerminal = async (start: string): Promise<string> => {
    const [first] = alone().administrators;
    const line = adapt(readCommand(page, start), lab(), first);
    return (await first.shell(`script --quiet --return --command '${line}' /dev/null`)).replaceAll(
      /\s+/g,
      ' ',
    );
  };

  test('a pod of `kubectl debug` looks at a node without an agent, and sees all that doctor asks for', async () => {
    const [first] = alone().administrators;
    await first.shell(`cat >root.yaml <<'END'\n${readRootYaml()}\nEND`);
    const stdout = await typeAtTerminal('kubectl debug node/');
    const doctor = readSteps('docs/quickstart.md', 'An existing cluster')[0]?.commands[0];
    const shown = doctor?.output.filter((line) => line !== '' && !line.includes('…')) ?? [];
    expect(shown).not.toEqual([]);
    for (const line of shown) expect(stdout).toContain(line);
    expect(stdout).not.toContain("does not see the host's /etc/");
    const pods = await lab().ask(['get', 'pods', '--namespace', 'default', '--output', 'name']);
    const [pod = ''] = /pod\/node-debugger-\S+/.exec(pods) ?? [];
    await lab().ask(['delete', pod, '--namespace', 'default']);
  });

  test('a container of containerd alone looks at a node, without the API and without a pod', async () => {
    expect(await type('ctr --namespace k8s.io run ')).toMatchObject({ exitCode: 0 });
    const checked = await type('ctr --namespace k8s.io tasks exec ');
    expect(checked).toMatchObject({ exitCode: 2, stdout: expect.stringContaining('no rule of vipnat') });
    expect(await type('ctr --namespace k8s.io tasks delete ')).toMatchObject({ exitCode: 0 });
    expect(await type('ctr --namespace k8s.io containers delete ')).toMatchObject({ exitCode: 0 });
  });

  // The kubelet looks for a ConfigMap again after ten seconds and more.
  for (const name of onlyLong('install.yaml waits for its ConfigMap and says so')) {
    test(name, async () => {
      const [{ master }] = alone().administrators;
      expect(await type('kubectl apply -f install.yaml')).toMatchObject({ exitCode: 0 });
      await waitUntil('the pod says what it waits for', async () => {
        const reason = await describeWaiting(lab(), master);
        return reason === 'CreateContainerConfigError configmap "vipnat" not found' ? null : reason;
      });
    });
  }

  test('with its ConfigMap, install.yaml balances the VIP', async () => {
    const [{ master }] = alone().administrators;
    const created = await type('kubectl -n kube-system create configmap vipnat ');
    expect(created).toMatchObject({ exitCode: 0 });
    expect(await type('kubectl apply -f install.yaml')).toMatchObject({ exitCode: 0 });
    await waitForDaemonSet(lab(), 'vipnat');
    await expectShares(lab(), 'client');
    const log = await readLog(lab(), (await findPod(lab(), master))?.name ?? '');
    expect(log).toMatch(/ follows the API at /);
    const complaints = log.split('\n').filter((line) => / (?:error|warn) /.test(line));
    expect(complaints.filter((line) => !slow.test(line))).toEqual([]);
  });

  testLooks(
    lab,
    async () => {
      const [{ master: node }] = alone().administrators;
      return { node, name: (await findPod(lab(), node))?.name ?? '' };
    },
    cannot,
  );

  test.each([
    ['kubectl -n kube-system exec daemonset/vipnat -- ', page, / · in sync$/m],
    [
      'kubectl -n kube-system logs -l app.kubernetes.io/name=vipnat',
      page,
      / info {2}vipnat \S+ runs, pid 1$/m,
    ],
    [
      'kubectl -n kube-system get pods -l app.kubernetes.io/name=vipnat -o wide',
      'docs/operate.md',
      /^vipnat-\w{5} +1\/1 +Running +0 .* m1 /m,
    ],
    ['kubectl describe node master-1', 'docs/reference.md', / ModeChosen /],
    [
      'kubectl get events --field-selector reportingComponent=vipnat',
      'docs/reference.md',
      / ModeChosen +node\/m1 /,
    ],
  ])('beside an agent, `%s` of %s shows what it is for', async (start, from, shown) => {
    const { exitCode, stdout, stderr } = await type(start, from);
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
    expect(stdout).toMatch(shown);
  });

  if (isLong) {
    test('an update to another version, and the way back: no container of it crashes', async () => {
      const [first, ...others] = alone().administrators;
      const crashes = await listCrashes(lab());
      const { image } = alone().files;
      const newer = image.replace(/:[^:]*$/, ':newer');
      const runEverywhere = (words: string) =>
        Promise.all([first, ...others].map(({ shell }) => shell(`ctr --namespace k8s.io images ${words}`)));
      await runEverywhere(`tag ${image} ${newer}`);
      await first.shell(`sed 's!${image}!${newer}!' install.yaml | kubectl apply -f -`);
      await waitForDaemonSet(lab(), 'vipnat');
      expect(await listImages(lab())).toEqual([newer]);
      const undone = await type('kubectl -n kube-system rollout undo ', 'docs/operate.md');
      expect(undone).toMatchObject({ exitCode: 0 });
      await waitForDaemonSet(lab(), 'vipnat');
      expect(await listImages(lab())).toEqual([image]);
      expect(await listCrashes(lab(), crashes)).toEqual([]);
      await runEverywhere(`remove ${newer}`);
    });
  }

  test('is removed with nothing but containerd, and no object, rule, route, file or image of it is left', async () => {
    const [first, ...others] = alone().administrators;
    expect(await type('kubectl delete -f install.yaml')).toMatchObject({ exitCode: 0 });
    expect(await type('kubectl -n kube-system delete configmap vipnat')).toMatchObject({ exitCode: 0 });
    for (const administrator of [first, ...others]) await cleanUpByContainer(lab(), administrator);
    await expectNoTraces(lab(), alone().administrators);
    expect(await type('ctr --namespace k8s.io images remove ')).toMatchObject({ exitCode: 0 });
    expect(await first.shell('ctr --namespace k8s.io images list --quiet')).not.toContain(
      alone().files.image,
    );
  });
}

/** As whoever reads it types it on a node. */
function adapt(line: string, lab: NodeLab, { master }: Administrator): string {
  return line.replaceAll('10.77.0.50', lab.vip).replaceAll(/\bmaster-1\b|\bm1\b/g, master);
}

/** The file for `kubectl debug`, with the second mount that the page has somebody add. */
function readRootYaml(): string {
  const { code } = parseDocument(page, readFileSync(page, 'utf8'));
  const text = code.find((each) => each.text.startsWith('# root.yaml'))?.text ?? '';
  const [mount = ''] = / {2}- name: host-root\n(?: {4}.*\n?)+/.exec(text) ?? [];
  return `${text}\n${mount.replaceAll('etc/kubernetes', 'etc/keepalived')}`;
}

/** Why the container of a node's pod waits, as the kubelet says it. */
async function describeWaiting(lab: NodeLab, node: string): Promise<string> {
  const pod = await findPod(lab, node);
  if (pod === null) return 'there is no pod';
  const waiting = '.status.containerStatuses[0].state.waiting';
  const path = `jsonpath={${waiting}.reason} {${waiting}.message}`;
  return await lab.ask(['get', 'pod', pod.name, '--namespace', 'kube-system', '--output', path]);
}

/** The images of the DaemonSet's pods, each once. */
async function listImages(lab: NodeLab): Promise<string[]> {
  const words = ['get', 'pods', '--namespace', 'kube-system', '--selector', 'app.kubernetes.io/name=vipnat'];
  const output = ['--output', 'jsonpath={.items[*].spec.containers[0].image}'];
  return [...new Set((await lab.ask([...words, ...output])).split(' '))];
}

/** `vipnat cleanup` in the container that the page has for a node with containerd alone. */
async function cleanUpByContainer(lab: NodeLab, administrator: Administrator): Promise<void> {
  const read = (start: string) =>
    adapt(readCommand(page, `ctr --namespace k8s.io ${start} `), lab, administrator);
  await administrator.shell(`${read('run')}
${read('tasks exec').replace(/vipnat check .*/, 'vipnat cleanup')}
${read('tasks delete')}
${read('containers delete')}`);
}
