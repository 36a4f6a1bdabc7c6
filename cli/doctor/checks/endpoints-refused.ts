import { type Check } from '../facts/check.ts';
import { given } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** Whether the API, kube-proxy or `--endpoints` names an apiserver that vipnat does not use. */
export const endpointsRefusedCheck: Check = {
  code: 'endpoints-refused',
  levels: ['warn'],
  meaning: 'The API, kube-proxy or `--endpoints` names an apiserver that vipnat does not use.',
  find: findRefused,
};

function findRefused({ assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ refused }) => ({
    gaps: [],
    findings: [...new Set(refused)].map((sentence) => ({
      level: 'warn',
      title: sentence,
      why: 'Two sources contradict each other, or one of them is wrong. So vipnat may balance over too few apiservers.',
      remedy: [
        '# compare both sources, and correct the wrong one. This names the apiservers of the API:',
        '# kubectl get endpointslices --namespace default --selector kubernetes.io/service-name=kubernetes',
        '# the API and kube-proxy outrank --endpoints: take the option away, or name the same apiservers',
      ],
    })),
  }));
}
