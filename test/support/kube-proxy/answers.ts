/**
 * What a kube-proxy answers of itself: its mode and its health. Run as a program of its own in a host's namespace:
 *   answers.ts MODE STATUS
 */
import { createServer, type RequestListener } from 'node:http';

process.title = 'kube-proxy';

const [mode = '', status = ''] = process.argv.slice(2);

const answerHealth: RequestListener = (_request, response) => {
  response.statusCode = Number(status);
  response.end('{}');
};
const answerMode: RequestListener = (request, response) => {
  response.statusCode = request.url === '/proxyMode' ? 200 : 404;
  response.end(mode);
};

createServer(answerMode).listen(10249, '127.0.0.1');
createServer(answerHealth).listen(10256, '0.0.0.0', () => {
  process.stdout.write('ready\n');
});
