import { injectionCases, toPod } from '../../../support/manifest/injected-pods.ts';
import { testTarget } from '../engine/run.ts';
import { mutateJson } from '../generate/json.ts';
import { mutateText } from '../engine/mutate.ts';
import { answerReview } from '../../../../controller/webhook/webhook.ts';
import { insist } from '../engine/properties.ts';

const reviews = injectionCases.map(([, pod]) => ({
  ...{ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' },
  request: {
    ...{ uid: 'u1', operation: 'CREATE', namespace: pod.namespace ?? 'gates', object: toPod(pod) },
    resource: { group: '', version: 'v1', resource: 'pods' },
  },
}));

const service = {
  metadata: { name: 'web', namespace: 'gates', resourceVersion: '7' },
  spec: { type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb', selector: { app: 'web' } },
};

const added =
  /^\/spec\/(?:terminationGracePeriodSeconds|readinessGates(?:\/-)?|containers\/\d+\/lifecycle(?:\/preStop)?)$/;

testTarget(
  'whatever an API server sends about a new pod, the pod is made, and gets a gate and pauses at most',
  {
    name: 'a review of a new pod',
    cases: 20_000,
    make: (random) => {
      const review = random.pick(reviews);
      return random.chance(70)
        ? JSON.stringify(mutateJson(random, review))
        : mutateText(random, [JSON.stringify(review), JSON.stringify(random.pick(reviews))]);
    },
    check: (text) => {
      const answer = answerReview(text, () => [service]);
      if (answer === null) return;
      const { uid, allowed, patch } = (JSON.parse(answer.text) as Answer).response;
      insist(allowed && text.includes(JSON.stringify(uid)), 'it allows what was asked for');
      insist((patch === undefined) === (answer.result !== 'patched'), 'it counts what it patches');
      const operations = JSON.parse(Buffer.from(patch ?? 'W10=', 'base64').toString()) as Operation[];
      for (const { op, path } of operations) insist(op === 'add' && added.test(path), `it adds ${path}`);
    },
  },
);

interface Answer {
  readonly response: { readonly uid: string; readonly allowed: boolean; readonly patch?: string };
}

type Operation = Readonly<Record<'op' | 'path', string>>;
