import * as z from 'zod/mini';
import { type NodeLab, adminKubeconfig } from '../nodes/node-lab.ts';
import { join } from 'node:path';
import { locateSpecComponents, locateNodeComponents } from '../build/build.ts';
import { outsider } from '../../../test/support/network/layout.ts';
import { readFileSync } from 'node:fs';

/** What became of one of Kubernetes' specs. */
export interface SpecResult {
  /** The texts of its containers and its own, without labels. */
  readonly name: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  readonly seconds: number;
  /** Why it failed, or was skipped by its own word; empty when it passed. */
  readonly why: string;
}

/** Which specs run, and for how long at most. Several choices can run at the same time, under names of their own. */
export interface SpecChoice {
  /** Of the files with the report and the output. */
  readonly name: string;
  /** Regular expressions for names, as Go has them: these, without those. */
  readonly focus: string;
  readonly skip?: string;
  readonly limitMs: number;
}

/** What Ginkgo 2.28 writes of a run, as far as it matters here. */
const report = z.array(
  z.object({
    SpecReports: z.array(
      z.object({
        ContainerHierarchyTexts: z.nullish(z.array(z.string())),
        LeafNodeText: z.string(),
        LeafNodeType: z.string(),
        State: z.string(),
        RunTime: z.number(),
        Failure: z.optional(z.object({ Message: z._default(z.string(), '') })),
      }),
    ),
  }),
);

/**
 * Runs specs of Kubernetes' own program, on a host that reaches nodes and Services from outside: `enter` runs a command there. Those
 * that were not chosen are not in the answer. What they printed is in `specs-NAME.log` in the lab's folder.
 * @throws Error when the program ends before it has written its report.
 */
export async function runSpecs(
  lab: NodeLab,
  enter: (command: readonly string[]) => string[],
  { name, focus, skip, limitMs }: SpecChoice,
): Promise<SpecResult[]> {
  const path = join(lab.folder, `specs-${name}.json`);
  const log = join(lab.folder, `specs-${name}.log`);
  const { kubernetes } = lab.options;
  const words = [
    locateSpecComponents(kubernetes).specs,
    '--provider=skeleton',
    `--kubeconfig=${join(lab.folder, adminKubeconfig)}`,
    `--kubectl-path=${locateNodeComponents(kubernetes).kubectl}`,
    `--ginkgo.focus=${focus}`,
    ...(skip === undefined ? [] : [`--ginkgo.skip=${skip}`]),
    '--ginkgo.no-color',
    `--ginkgo.timeout=${Math.round(limitMs / 1000)}s`,
    `--ginkgo.json-report=${path}`,
  ];
  const script = 'rm -f "$1"; shift; log=$1; shift; exec "$@" >"$log" 2>&1';
  const command = ['sh', '-c', script, 'sh', path, log, ...enter(words)];
  await lab.machine(outsider.name).run(command, { limitMs: limitMs + 60_000 });
  return readReport(path, log);
}

/**
 * What a report of Ginkgo says of the specs that were chosen.
 * @throws Error with the end of the log when there is no report.
 */
export function readReport(path: string, log: string): SpecResult[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    throw new Error(`the specs wrote no report:\n${readFileSync(log, 'utf8').slice(-2000)}`);
  }
  const runs = report.parse(JSON.parse(text));
  return runs.flatMap(({ SpecReports }) => SpecReports.flatMap(toResult));
}

type SpecReport = z.output<typeof report>[number]['SpecReports'][number];

/** A spec that was not chosen is skipped without a word. */
function toResult(spec: SpecReport): SpecResult[] {
  const why = spec.Failure?.Message ?? '';
  if (spec.LeafNodeType !== 'It') {
    if (spec.State === 'passed') return [];
    return [{ name: spec.LeafNodeType, outcome: 'failed', seconds: spec.RunTime / 1e9, why }];
  }
  if (spec.State === 'skipped' && why === '') return [];
  const name = [...(spec.ContainerHierarchyTexts ?? []), spec.LeafNodeText]
    .join(' ')
    .replaceAll(/\s*(?:\[[^\]]+\]\s*)+/g, ' ')
    .trim();
  const outcome = spec.State === 'passed' || spec.State === 'skipped' ? spec.State : 'failed';
  return [{ name, outcome, seconds: spec.RunTime / 1e9, why }];
}
